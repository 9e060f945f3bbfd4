// CallRecorder: writes down which functions a forward pass calls, with their settings, so that a
// network can be written in another form (saving/onnx).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/function.hpp"

namespace tasuki {

// The settings of a function's call, by name: those of the function's declaration.
class CallSettings {
 public:
  void set(const char* name, std::int64_t number) { add(name).number = number; }
  void set(const char* name, bool flag) { add(name).number = flag ? 1 : 0; }
  void set(const char* name, double real) { add(name).real = real; }
  void set(const char* name, std::vector<std::int64_t> list) { add(name).list = std::move(list); }
  void set(const char* name, const Tensor& tensor) { add(name).tensor = tensor; }

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The value of a setting that is there.
  std::int64_t number(std::string_view name) const { return at(name).number; }
  double real(std::string_view name) const { return at(name).real; }
  const std::vector<std::int64_t>& list(std::string_view name) const { return at(name).list; }
  const Tensor& tensor(std::string_view name) const { return at(name).tensor; }
  // Whether numbers and lists are those of another call.
  bool has_numbers_of(const CallSettings& other) const {
    return std::equal(settings_.begin(), settings_.end(), other.settings_.begin(),
                      other.settings_.end(), [](const Setting& a, const Setting& b) {
                        return a.name == b.name && a.number == b.number && a.real == b.real &&
                               a.list == b.list;
                      });
  }

 private:
  struct Setting {
    std::string name;
    std::int64_t number = 0;
    double real = 0;
    std::vector<std::int64_t> list;
    Tensor tensor;
  };
  Setting& add(const char* name) {
    settings_.emplace_back();
    settings_.back().name = name;
    return settings_.back();
  }
  const Setting* find(std::string_view name) const {
    for (const Setting& each : settings_)
      if (each.name == name) return &each;
    return nullptr;
  }
  const Setting& at(std::string_view name) const {
    const Setting* const found = find(name);
    TASUKI_CHECK(found != nullptr, "a function's call has no setting {}", name);
    return *found;
  }
  std::vector<Setting> settings_;
};

// One call of a function: its inputs (undefined for those that it did not get) and its result.
struct Call {
  std::string name;  // Function::name()
  std::vector<Tensor> inputs;
  Tensor result;
  CallSettings settings;  // as Function::describe() says
};

// While it exists, each call of its thread's functions is kept here with its tensors, in order.
class CallRecorder final : public FunctionHook {
 public:
  void called(const Function& function, const std::vector<Variable>& inputs,
              const Variable& result) override;
  const std::vector<Call>& calls() const { return calls_; }

 private:
  std::vector<Call> calls_;
};

}  // namespace tasuki

#include "tasuki/nn/module.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/core/hash.hpp"

namespace tasuki {

void Module::visit(const std::string& prefix,
                   const std::function<void(const std::string&, const Module&)>& fn) const {
  fn(prefix, *this);
  for (const Child& child : children_) child.module->visit(prefix + child.name + "/", fn);
}

std::vector<Module::NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> found;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedParameter& owned : module.parameters_)
      found.push_back({prefix + owned.name, owned.parameter.get()});
  });
  return found;
}

std::vector<Module::NamedBuffer> Module::buffers() const {
  std::vector<NamedBuffer> found;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedBuffer& owned : module.buffers_)
      found.push_back({prefix + owned.name, owned.tensor.get()});
  });
  return found;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedParameter& named : parameters()) count += named.parameter->value().count();
  return count;
}

void Module::initialize(std::uint64_t seed) {
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const OwnedParameter& owned : module.parameters_)
      owned.initializer(owned.parameter->value(), seed, hash_text(prefix + owned.name));
  });
}

void Module::clear_grads() const {
  for (const NamedParameter& named : parameters()) named.parameter->clear_grad();
}

void Module::to(Device device) const {
  for (const NamedParameter& named : parameters()) {
    if (named.parameter->value().device() == device) continue;
    const auto fresh = [&] {
      return Tensor::empty(named.parameter->shape(), DType::float32, device);
    };
    named.parameter->clear_grad();
    named.parameter->move_to(fresh(), fresh());
  }
  for (const NamedBuffer& named : buffers()) *named.tensor = named.tensor->to(device);
}

Device Module::device() const {
  const std::vector<NamedParameter> all = parameters();
  return all.empty() ? Device::cpu() : all.front().parameter->value().device();
}

void Module::check_name(const std::string& name) const {
  const auto same = [&](const auto& other) { return other.name == name; };
  TASUKI_CHECK(!name.empty() && name.find('/') == std::string::npos,
               "\"{}\" cannot name a part of a module: it is empty or contains a slash", name);
  TASUKI_CHECK(std::ranges::none_of(parameters_, same) && std::ranges::none_of(buffers_, same) &&
                   std::ranges::none_of(children_, same),
               "the module has a part named {} already", name);
}

Parameter& Module::add_parameter(const std::string& name, const Shape& shape,
                                 Initializer initializer) {
  check_name(name);
  TASUKI_CHECK(initializer != nullptr, "parameter {} has no initializer", name);
  parameters_.push_back(
      {name, std::make_unique<Parameter>(name, Tensor::zeros(shape)), std::move(initializer)});
  return *parameters_.back().parameter;
}

Tensor& Module::add_buffer(const std::string& name, Tensor value) {
  check_name(name);
  buffers_.push_back({name, std::make_unique<Tensor>(std::move(value))});
  return *buffers_.back().tensor;
}

void Module::add(const std::string& name, Module& child) {
  check_name(name);
  children_.push_back({name, &child});
}

}  // namespace tasuki

// A model and a loss with gradients that a test chooses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/function.hpp"
#include "nn/module.hpp"
#include "optimizer/optimizer.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {

// Parameters of the given sizes named "a", "b", "c", ...; all values zero at first.
class Vectors : public Module {
 public:
  explicit Vectors(std::vector<std::int64_t> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      made_.push_back(
          &add_parameter(std::string(1, static_cast<char>('a' + i)), {sizes[i]}, zeros));
    initialize(0);
  }
  using Module::add;
  using Module::add_buffer;

  Parameter& operator[](std::size_t i) const { return *made_[i]; }

 private:
  static void zeros(const Tensor& value, std::uint64_t, std::uint64_t) { value.fill(0); }
  std::vector<Parameter*> made_;
};

// A scalar whose gradient with respect to each parameter is the tensor given with it.
using Prescribed = std::vector<std::pair<Parameter*, Tensor>>;
inline Variable loss_with_gradients(const Prescribed& prescribed) {
  class Prescribe final : public Function {
   public:
    explicit Prescribe(const Prescribed& prescribed) {
      for (const auto& [parameter, gradient] : prescribed) gradients_.push_back(gradient);
    }
    const char* name() const override { return "Prescribe"; }
    void backward(const Tensor& grad_output, Gradients& grad_inputs) override {
      for (std::size_t i = 0; i < gradients_.size(); ++i) {
        Tensor gradient = gradients_[i].clone();
        for (float& value : gradient.span<float>()) value *= static_cast<float>(grad_output.item());
        grad_inputs.add(i, std::move(gradient));
      }
    }

   private:
    std::vector<Tensor> gradients_;
  };
  std::vector<Variable> inputs;
  for (const auto& [parameter, gradient] : prescribed) inputs.push_back(*parameter);
  return Function::record(Tensor::zeros({}), inputs,
                          [&] { return std::make_unique<Prescribe>(prescribed); });
}

// A step of which the number of examples on all ranks is known.
inline void update_of(Optimizer& optimizer, const std::function<Variable()>& loss,
                      std::int64_t examples, std::int64_t global_examples) {
  StepScope step;
  const Variable found = optimizer.forward(loss, examples);
  optimizer.update(optimizer.backward_and_exchange(found, examples, global_examples));
  step.succeeded();
}

// A step of one process as if other ranks had examples, too, whose gradients are 0.
inline void update_of_part(Optimizer& optimizer, const std::function<Variable()>& loss,
                           std::int64_t examples, std::int64_t global_examples) {
  StepScope step;
  optimizer.backward(optimizer.forward(loss, examples), examples);
  optimizer.exchange();
  optimizer.update(global_examples);
  step.succeeded();
}

// The Error that `action` throws, as "exit code: message"; empty if it throws none.
template <class Action>
std::string coded_error_of(Action&& action) {
  const auto error = caught(std::forward<Action>(action));
  return error ? fmt::format("{}: {}", error->exit_code(), error->what()) : "";
}

inline Tensor vector_of(const std::vector<float>& values) {
  return Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())});
}
inline std::vector<float> values_of(const Tensor& tensor) {
  const Tensor plain = tensor.plain();
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

}  // namespace tasuki::testing

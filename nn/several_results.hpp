// Functions with several results: one vertex of the graph for the function, and one for each
// result.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"

namespace tasuki {

// Holds the gradients of a function's results until the function runs backward. The gradient of an
// unused result stays undefined.
using ResultGradients = std::shared_ptr<std::vector<Tensor>>;

// One of the results: leaves its gradient with the function.
class OneOfResults final : public Function {
 public:
  OneOfResults(const char* name, ResultGradients gradients, std::size_t i)
      : name_(name), gradients_(std::move(gradients)), i_(i) {}
  const char* name() const override { return name_; }
  void describe(CallSettings& settings) const override {
    settings.set("result", static_cast<std::int64_t>(i_));
  }

  void backward(const Tensor& gradient, Gradients& gradients) override {
    (*gradients_)[i_] = gradient;
    gradients.add(0, Tensor::zeros({}, DType::float32, gradient.device()));
  }
  void drop_gradients() noexcept override { (*gradients_)[i_] = {}; }

 private:
  const char* name_;
  ResultGradients gradients_;
  std::size_t i_;
};

// The results of this vertex's function, as variables.
inline std::vector<Variable> results_of(const Variable& function, const char* name,
                                        std::vector<Tensor> results,
                                        const ResultGradients& gradients) {
  std::vector<Variable> variables;
  for (std::size_t i = 0; i < results.size(); ++i)
    variables.push_back(Function::record(std::move(results[i]), {function}, [&] {
      return std::make_unique<OneOfResults>(name, gradients, i);
    }));
  return variables;
}

// The results as variables, like Function::record. `make` builds the function from a
// ResultGradients with a place for each result. Its backward pass runs once, when all of them are
// complete; it takes them from there and ignores the gradient that it is called with.
template <class Make>
std::vector<Variable> record_results(const char* name, std::vector<Tensor> results,
                                     const std::vector<Variable>& inputs, Make&& make) {
  const auto gradients = std::make_shared<std::vector<Tensor>>(results.size());
  const Device device = results.at(0).device();
  const Variable function = Function::record(Tensor::zeros({}, DType::float32, device), inputs,
                                             [&] { return std::forward<Make>(make)(gradients); });
  return results_of(function, name, std::move(results), gradients);
}

}  // namespace tasuki

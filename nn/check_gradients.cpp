#include "nn/check_gradients.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/philox.hpp"
#include "nn/function.hpp"
#include "nn/parameter.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using Checked = std::function<Variable(const std::vector<Variable>& inputs)>;

Tensor on_host(const Tensor& values) {
  return values.plain().to(Device::cpu()).to(DType::float32);
}

// Sum of result * weights, so that the weights are the gradient of the result.
class WeightedResult final : public Function {
 public:
  explicit WeightedResult(Tensor weights) : weights_(std::move(weights)) {}
  const char* name() const override { return "weighted_result"; }
  void backward(const Tensor& upstream, Gradients& gradients) override {
    const Tensor gradient = weights_.clone();
    backend(gradient.device()).scale(gradient, static_cast<float>(upstream.item()));
    gradients.add(0, gradient);
  }

 private:
  Tensor weights_;
};

Tensor random_weights(const Shape& shape, std::uint64_t seed) {
  Tensor weights = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& weight : weights.span<float>()) weight = 0.5F + random.uniform();
  return weights;
}

double weighted_sum(const Tensor& result, const Tensor& weights) {
  const Tensor host = on_host(result);
  double sum = 0;
  for (std::int64_t i = 0; i < host.count(); ++i)
    sum +=
        static_cast<double>(host.data<float>()[i]) * static_cast<double>(weights.data<float>()[i]);
  return sum;
}

// Arrays with their values from before, whatever happens.
class Restored {
 public:
  explicit Restored(const std::vector<Tensor>& values) : values_(values) {
    for (const Tensor& each : values) before_.push_back(each.clone());
  }
  ~Restored() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i].copy_from(before_[i]);
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

  void move(const std::vector<Tensor>& direction, double step) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i].copy_from(before_[i]);
      backend(values_[i].device()).accumulate(values_[i], direction[i], static_cast<float>(step));
    }
  }

 private:
  std::vector<Tensor> values_, before_;
};

void check_input(const Variable& input, std::size_t i) {
  const Tensor& values = input.value();
  for (const DType type : {DType::bfloat16, DType::float16})
    TASUKI_CHECK(input.value_as(type).dtype() == values.dtype(),
                 "check_gradients: input {} has a copy in {}, which would not follow its values", i,
                 name_of(type));
  TASUKI_CHECK(values.dtype() == DType::float32 && values.is_plain(),
               "check_gradients: input {} must be a plain float32 array, not {}", i,
               name_of(values.dtype()));
}

// "[2, 0, 3]"
std::string place_text(std::int64_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text.insert(0, fmt::format("{}{}", axis > 0 ? ", " : "", element % shape[axis]));
    element /= shape[axis];
  }
  return '[' + text + ']';
}

// What is wrong with the gradients of one input: the element with the largest error.
struct Finding {
  std::int64_t differing = 0, element = 0;
  double excess = 0;  // of the error over what is allowed
  double gradient = 0, difference = 0;
  bool has_kink = false;  // steps of two sizes give different derivatives
};

Finding compare(const std::function<double()>& f, const Tensor& values, const Tensor& gradient,
                const GradientCheck& check) {
  Finding found;
  const Tensor direction = Tensor::zeros(values.shape());
  for (std::int64_t i = 0; i < values.count(); ++i) {
    float& here = direction.data<float>()[i];
    here = 1;
    const Tensor along = direction.to(values.device());
    const double wide = central_difference(f, {values}, {along}, check.step);
    const double narrow = central_difference(f, {values}, {along}, check.step / 2);
    here = 0;
    const double difference = (4 * narrow - wide) / 3;
    const double expected = static_cast<double>(gradient.data<float>()[i]);
    const double allowed = check.absolute + check.relative * std::abs(difference);
    const double excess = std::abs(expected - difference) - allowed;
    if (excess <= 0) continue;  // unless a value is not a number, which compares with nothing
    if (found.differing++ > 0 && excess <= found.excess) continue;
    found.element = i;
    found.excess = excess;
    found.gradient = expected;
    found.difference = difference;
    found.has_kink = std::abs(wide - narrow) > allowed;
  }
  return found;
}

}  // namespace

double central_difference(const std::function<double()>& f, const std::vector<Tensor>& values,
                          const std::vector<Tensor>& direction, double step) {
  TASUKI_CHECK(values.size() == direction.size(), "{} arrays, and a direction of {}", values.size(),
               direction.size());
  // What float32 makes of the step.
  const auto h = static_cast<double>(static_cast<float>(step));
  const Restored moving(values);
  moving.move(direction, h);
  const double above = f();
  moving.move(direction, -h);
  return (above - f()) / (2 * h);
}

void check_gradients(const Checked& function, const std::vector<Variable>& inputs,
                     const GradientCheck& check) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) {
      check_input(inputs[i], i);
      inputs[i].clear_grad();
    }
  const Variable result = function(inputs);
  const Tensor weights = random_weights(result.shape(), check.seed);
  const auto f = [&] {
    const NoGrad no_graph;
    return weighted_sum(function(inputs).value(), weights);
  };
  const double first = weighted_sum(result.value(), weights);
  if (const double again = f(); again != first && !(std::isnan(again) && std::isnan(first)))
    fail(ErrorKind::data,
         "check_gradients: the function returned other values when it was called again with the "
         "same inputs (weighted sums {} and {}); give random functions the same random numbers in "
         "each call (RandomScope)",
         first, again);
  Function::record(Tensor::full({}, first), {result}, [&] {
    return std::make_unique<WeightedResult>(
        weights.to(result.value().dtype()).to(result.value().device()));
  }).backward();

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor& values = inputs[i].value();
    // An input that the result does not depend on has no gradient.
    const Tensor gradient =
        inputs[i].grad() ? on_host(inputs[i].grad()) : Tensor::zeros(values.shape());
    const Finding found = compare(f, values, gradient, check);
    if (found.differing == 0) continue;
    fail(ErrorKind::data,
         "check_gradients: input {} ({}), element {}: the backward pass gives {:.6g}, differences "
         "of the forward pass give {:.6g} (allowed: {} + {} of it); {} of {} elements differ{}",
         i, values.shape().text(), place_text(found.element, values.shape()), found.gradient,
         found.difference, check.absolute, check.relative, found.differing, values.count(),
         found.has_kink ? "; steps of two sizes give different derivatives here, as near a kink"
                        : "");
  }
}

}  // namespace tasuki

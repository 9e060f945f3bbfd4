#include "parallel/functions/exchange.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "nn/recompute.hpp"
#include "nn/several_results.hpp"
#include "tensor/late_values.hpp"

namespace tasuki::functions {
namespace {

struct Kind {
  Shape shape;
  DType dtype;
  Device device;

  explicit Kind(const Tensor& tensor)
      : shape(tensor.shape()), dtype(tensor.dtype()), device(tensor.device()) {}
};

// Results that nothing was computed from have gradients of zeros.
struct Results {
  std::vector<Kind> kinds;
  ResultGradients gradients;

  // Leaves places for those of another pass.
  std::vector<Tensor> take() const {
    std::vector<Tensor> taken(kinds.size());
    taken.swap(*gradients);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (!taken[i]) taken[i] = Tensor::zeros(kinds[i].shape, kinds[i].dtype, kinds[i].device);
    return taken;
  }
};

class Exchange final : public Function {
 public:
  // `results` is absent if the gradient of this function's result is that of the exchange's only
  // one.
  Exchange(const char* name, std::optional<Results> results, const std::vector<Variable>& inputs,
           ExchangeBack back)
      : name_(name), results_(std::move(results)), back_(std::move(back)) {
    for (const Variable& input : inputs)
      if (input.defined())
        kinds_.emplace_back(Kind(input.value()));
      else
        kinds_.emplace_back();
  }
  const char* name() const override { return name_; }

  void backward(const Tensor& gradient, Gradients& gradients) override {
    const std::vector<Tensor> passed_on =
        back_(results_ ? results_->take() : std::vector<Tensor>{gradient});
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (!gradients.needed(i)) continue;
      const Kind& kind = *kinds_[i];
      const Tensor found = i < passed_on.size() && passed_on[i]
                               ? passed_on[i]
                               : Tensor::zeros(kind.shape, kind.dtype, kind.device);
      if (found.shape() != kind.shape || found.dtype() != kind.dtype)
        fail(ErrorKind::disagreement,
             "{}: expected the gradient of {} {} from other ranks, found {} {}; do all ranks call "
             "the same functions in the same order?",
             name_, name_of(kind.dtype), kind.shape.text(), name_of(found.dtype()),
             found.shape().text());
      gradients.add(i, found.to(kind.device));
    }
  }

 private:
  const char* name_;
  std::optional<Results> results_;
  ExchangeBack back_;
  std::vector<std::optional<Kind>> kinds_;  // of inputs; nothing for undefined ones
};

// Other ranks wait for the backward pass of an exchange whether or not an input requires a gradient
// here, so this input always does.
std::vector<Variable> with_one_that_requires_grad(std::vector<Variable> inputs) {
  inputs.emplace_back(Tensor::zeros({}), /*requires_grad=*/true);
  return inputs;
}

}  // namespace

Variable record_exchange(const char* name, const Communicator& communicator, const Tensor& result,
                         const std::vector<Variable>& inputs, ExchangeBack back) {
  return Function::record(
      result.to(communicator.options().device), with_one_that_requires_grad(inputs),
      [&] { return std::make_unique<Exchange>(name, std::nullopt, inputs, std::move(back)); });
}

Exchanged record_exchange(const char* name, const Communicator& communicator,
                          std::vector<Tensor> results, const std::vector<Variable>& inputs,
                          ExchangeBack back) {
  Results waiting{{}, std::make_shared<std::vector<Tensor>>(results.size())};
  for (const Tensor& result : results) waiting.kinds.emplace_back(result);
  Exchanged exchanged;
  exchanged.delegate = Function::record(
      Tensor::zeros({}, DType::float32, communicator.options().device),
      with_one_that_requires_grad(inputs),
      [&] { return std::make_unique<Exchange>(name, waiting, inputs, std::move(back)); });
  exchanged.results = results_of(exchanged.delegate, name, std::move(results), waiting.gradients);
  return exchanged;
}

const Tensor& checked_value(const char* function, const Variable& x) {
  if (!x.defined()) fail(ErrorKind::usage, "{}: expected a value, found none", function);
  const DType type = x.value().dtype();
  if (type == DType::int32 || type == DType::int64 || type == DType::uint8)
    fail(
        ErrorKind::usage,
        "{}: expected a value of a float type, found {}; the communicator's own functions exchange "
        "values without gradients",
        function, name_of(type));
  return x.value();
}

std::vector<Tensor> checked_values(const char* function, const std::vector<Variable>& xs) {
  std::vector<Tensor> values;
  values.reserve(xs.size());
  for (const Variable& x : xs) values.push_back(checked_value(function, x));
  return values;
}

void refuse_repetition_of(const char* function, const Communicator& communicator) {
  refuse_recomputing(function);
  if (!communicator.options().device.is_cpu())
    refuse_recording(fmt::format("{} exchanges values by way of the host", function));
}

}  // namespace tasuki::functions

#include "parallel/split_layers.hpp"

#include <utility>

#include "core/range.hpp"
#include "nn/function.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/recompute.hpp"
#include "tensor/backend.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {
namespace {

using Sum = std::shared_ptr<SumOverRanks>;

// This rank's part of `n` outputs, inputs or channels.
Range own_part(std::int64_t n, const Communicator& communicator, const char* what) {
  if (n < communicator.size())
    fail(ErrorKind::usage, "{} {} cannot be divided among {} ranks; start fewer", n, what,
         communicator.size());
  return part_of(n, communicator.size(), communicator.rank());
}

// Draws all of a parameter of this shape and keeps a part of its axis.
Initializer part_of_whole(Initializer draw, const Shape& whole, int axis, const Range& part) {
  return [draw = std::move(draw), whole, axis, part](const Tensor& value, std::uint64_t seed,
                                                     std::uint64_t stream) {
    const Tensor all = Tensor::empty(whole);
    draw(all, seed, stream);
    value.copy_from(backend(Device::cpu()).take(all, axis, part.begin, part.end));
  };
}

// The identity, whose backward pass sums gradients over the ranks: in front of what each rank
// computes a part of.
class Spread final : public Function {
 public:
  explicit Spread(Sum sum) : sum_(std::move(sum)) {}
  const char* name() const override { return "spread"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, sum_->of(dy).clone());
  }

 private:
  Sum sum_;
};

Variable spread(const Variable& x, const Sum& sum) {
  if (sum->communicator().size() == 1) return x;
  refuse_recomputing("a divided layer");
  return Function::record(x.value(), {x}, [&] { return std::make_unique<Spread>(sum); });
}

// The sum over ranks, of which one has added the bias b. Every rank has the gradient of the sum, so
// no message is needed for those of its inputs.
class Join final : public Function {
 public:
  const char* name() const override { return "join"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    if (gradients.needed(1)) {
      const auto [db, accumulate] = gradients.into(1, Shape{dy.shape()[1]});
      backend(dy.device()).backward_bias(dy, db, accumulate);
      gradients.written(1);
    }
    if (gradients.needed(0)) gradients.add(0, dy);
  }
};

// All ranks' channels, in the order of ranks.
class GatherChannels final : public Function {
 public:
  explicit GatherChannels(const Range& own) : own_(own) {}
  const char* name() const override { return "gather_channels"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).take(dy.plain(), 1, own_.begin, own_.end));
  }

 private:
  Range own_;
};

Variable gather_channels(const Variable& own, std::int64_t channels, Communicator& communicator) {
  if (communicator.size() == 1) return own;
  refuse_recomputing("a divided convolution");
  const Device device = own.value().device();
  if (!device.is_cpu()) refuse_recording("channels of other ranks come by way of the host");
  std::vector<Tensor> parts = communicator.allgather(own.value().plain());
  for (Tensor& part : parts) part = part.to(device);
  const Range range = part_of(channels, communicator.size(), communicator.rank());
  return Function::record(backend(device).concat(parts, 1), {own},
                          [&] { return std::make_unique<GatherChannels>(range); });
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(std::int64_t n_in, std::int64_t n_out,
                                           std::shared_ptr<Communicator> communicator, bool relu,
                                           Initializer weights)
    : sum_(std::make_shared<SumOverRanks>(std::move(communicator), "a divided layer")),
      w_([&]() -> Parameter& {
        const Range own = own_part(n_out, sum_->communicator(), "outputs");
        return add_parameter("W", {own.size(), n_in},
                             part_of_whole(std::move(weights), {n_out, n_in}, 0, own));
      }()),
      b_(add_parameter("b", {w_.shape()[0]}, initializers::zero())),
      relu_(relu) {}

Variable ColumnParallelLinear::forward(const Variable& x) {
  return functions::linear(spread(x.shape().rank() == 2 ? x : functions::flatten(x), sum_), w_, b_,
                           relu_);
}

RowParallelLinear::RowParallelLinear(std::int64_t n_in, std::int64_t n_out,
                                     std::shared_ptr<Communicator> communicator,
                                     Initializer weights)
    : sum_(std::make_shared<SumOverRanks>(std::move(communicator), "a divided layer")),
      w_([&]() -> Parameter& {
        const Range own = own_part(n_in, sum_->communicator(), "inputs");
        return add_parameter("W", {n_out, own.size()},
                             part_of_whole(std::move(weights), {n_out, n_in}, 1, own));
      }()),
      b_(add_parameter("b", {n_out}, initializers::zero())) {}

Variable RowParallelLinear::forward(const Variable& x) {
  if (sum_->communicator().size() == 1) return functions::linear(x, w_, b_);
  refuse_recomputing("a divided layer");
  const bool adds_bias = sum_->communicator().rank() == 0;
  const DType type = x.value().dtype();
  const Variable part =
      functions::linear(x, w_, adds_bias ? Variable(b_.value_as(type)) : Variable());
  return Function::record(sum_->of(part.value()).clone(), {part, b_},
                          [] { return std::make_unique<Join>(); });
}

ParallelConv2d::ParallelConv2d(std::int64_t channels_in, std::int64_t channels_out,
                               std::int64_t kernel, std::shared_ptr<Communicator> communicator,
                               std::int64_t stride, std::int64_t pad, bool bias,
                               Initializer weights)
    : sum_(std::make_shared<SumOverRanks>(std::move(communicator), "a divided convolution")),
      w_([&]() -> Parameter& {
        const Range own = own_part(channels_out, sum_->communicator(), "channels");
        return add_parameter(
            "W", {own.size(), channels_in, kernel, kernel},
            part_of_whole(std::move(weights), {channels_out, channels_in, kernel, kernel}, 0, own));
      }()),
      b_(bias ? &add_parameter("b", {w_.shape()[0]}, initializers::zero()) : nullptr),
      channels_out_(channels_out) {
  options_.stride_h = options_.stride_w = stride;
  options_.pad_h = options_.pad_w = pad;
}

Variable ParallelConv2d::forward(const Variable& x) {
  const Variable own =
      functions::conv2d(spread(x, sum_), w_, b_ != nullptr ? *b_ : Variable(), options_);
  return gather_channels(own, channels_out_, sum_->communicator());
}

}  // namespace tasuki

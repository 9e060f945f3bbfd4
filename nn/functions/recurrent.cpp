#include "nn/functions/sequences.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "nn/call_recorder.hpp"
#include "nn/several_results.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {
namespace {

// A view of tensors stacked along axis 0 if each begins where the previous one ends, else
// undefined.
Tensor joined_view(std::span<const Tensor> parts) {
  Shape shape = parts[0].shape();
  std::size_t end = parts[0].offset() + parts[0].bytes();
  for (const Tensor& part : parts.subspan(1)) {
    if (part.storage() != parts[0].storage() || part.offset() != end ||
        part.dtype() != parts[0].dtype())
      return {};
    end += part.bytes();
    shape[0] += part.shape()[0];
  }
  return {parts[0].storage(), parts[0].offset(), shape, parts[0].dtype()};
}

Tensor stacked(std::span<const Variable> parts, DType type) {
  std::vector<Tensor> tensors;
  for (const Variable& part : parts) tensors.push_back(part.value_as(type));
  Tensor view = joined_view(tensors);
  return view ? view : backend(tensors[0].device()).concat(tensors, 0);
}

// The gradients of inputs [first, first + count) of equal shapes as one destination; undefined if
// none of them is needed.
class StackedGradient {
 public:
  StackedGradient(Gradients& gradients, std::size_t first, std::size_t count, const Shape& all,
                  Device device) {
    const Shape part = all.with_items(all[0] / static_cast<std::int64_t>(count));
    std::vector<Tensor> tensors;
    for (std::size_t i = first; i < first + count; ++i) {
      parts_.push_back(gradients.needed(i) ? gradients.into(i, part) : Gradients::Destination{});
      tensors.push_back(parts_.back().tensor);
    }
    const auto is_needed = [](const auto& each) { return each.tensor.defined(); };
    const auto same = [&](const auto& each) {
      return is_needed(each) && each.accumulate == parts_[0].accumulate;
    };
    if (std::ranges::all_of(parts_, same)) whole_ = {joined_view(tensors), parts_[0].accumulate};
    if (whole_.tensor)
      parts_.clear();
    else if (std::ranges::any_of(parts_, is_needed))
      whole_ = {Tensor::empty(all, DType::float32, device), false};
  }

  const RecurrentGradients::Destination& whole() const { return whole_; }

  // To be called after `whole` was written.
  void finish() {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const auto& [tensor, accumulate] = parts_[k];
      if (!tensor) continue;
      const auto rows = static_cast<std::int64_t>(k) * tensor.shape()[0];
      const Tensor part = whole_.tensor.slice(rows, rows + tensor.shape()[0]);
      if (accumulate)
        backend(tensor.device()).accumulate(tensor, part, 1);
      else
        tensor.copy_from(part);
    }
  }

 private:
  std::vector<Gradients::Destination> parts_;  // if they are not neighbours
  RecurrentGradients::Destination whole_;
};

// Inputs: x, states, w0 .., b0 ..; results: y, states.
class Recurrent final : public Function {
 public:
  Recurrent(RecurrentLayer layer, Tensor lengths, std::shared_ptr<Workspace> workspace,
            ResultGradients upstream)
      : layer_(std::move(layer)),
        lengths_(std::move(lengths)),
        workspace_(std::move(workspace)),
        upstream_(std::move(upstream)) {}
  const char* name() const override { return "recurrent"; }
  void describe(CallSettings& settings) const override {
    settings.set("is_lstm", layer_.kind == Recurrence::lstm);
    settings.set("is_reversed", layer_.is_reversed);
    settings.set("lengths", lengths_);
  }
  // As if all examples were as long as the longest.
  double multiply_adds(const std::vector<Variable>& inputs, const Tensor&) const override {
    const Shape& x = inputs[0].shape();
    return static_cast<double>(x[0] * x[1]) *
           static_cast<double>(layer_.wx.count() + layer_.wh.count());
  }

  void backward(const Tensor&, Gradients& gradients) override {
    const auto gates = static_cast<std::size_t>(gates_of(layer_.kind));
    const Device device = layer_.wx.device();
    const auto destination = [&](std::size_t kind, const Tensor& value) {
      return StackedGradient(gradients, 2 + kind * gates, gates, value.shape(), device);
    };
    StackedGradient wx = destination(0, layer_.wx), wh = destination(1, layer_.wh);
    StackedGradient bx = destination(2, layer_.bx), bh = destination(3, layer_.bh);
    auto inputs = backend(device).sequences().recurrent_backward(
        layer_, {std::exchange((*upstream_)[0], {}), std::exchange((*upstream_)[1], {})},
        *workspace_,
        {wx.whole(), wh.whole(), bx.whole(), bh.whole(), gradients.needed(0), gradients.needed(1)});
    for (StackedGradient* const each : {&wx, &wh, &bx, &bh}) each->finish();
    if (gradients.needed(0)) gradients.add(0, std::move(inputs.dx));
    if (gradients.needed(1)) gradients.add(1, std::move(inputs.dstates));
  }

 private:
  RecurrentLayer layer_;
  Tensor lengths_;
  std::shared_ptr<Workspace> workspace_;
  ResultGradients upstream_;
};

}  // namespace

RecurrentLayer stacked_layer(Recurrence kind, const RecurrentWeights& weights, DType type,
                             bool is_reversed) {
  const auto gates = static_cast<std::size_t>(gates_of(kind));
  TASUKI_CHECK(weights.w.size() == 2 * gates && weights.b.size() == 2 * gates,
               "recurrent layer: expected {} matrices and as many biases, found {} and {}",
               2 * gates, weights.w.size(), weights.b.size());
  const std::span w(weights.w), b(weights.b);
  return {kind,
          is_reversed,
          stacked(w.first(gates), type),
          stacked(w.last(gates), type),
          stacked(b.first(gates), DType::float32),
          stacked(b.last(gates), DType::float32),
          nullptr};
}

RecurrentResult recurrent(Recurrence kind, const Variable& x, const Tensor& lengths,
                          const Variable& states, const RecurrentWeights& weights,
                          bool is_reversed) {
  RecurrentLayer layer = stacked_layer(kind, weights, x.value().dtype(), is_reversed);
  std::vector<Variable> inputs = {x, states};
  inputs.insert(inputs.end(), weights.w.begin(), weights.w.end());
  inputs.insert(inputs.end(), weights.b.begin(), weights.b.end());

  std::shared_ptr<Workspace> workspace;
  auto outputs = backend(x.value().device())
                     .sequences()
                     .recurrent(layer, x.value(), lengths,
                                states.defined() ? states.value() : Tensor(), &workspace);
  const auto results =
      record_results("recurrent", {std::move(outputs.y), std::move(outputs.states)}, inputs,
                     [&](const ResultGradients& upstream) {
                       return std::make_unique<Recurrent>(std::move(layer), lengths,
                                                          std::move(workspace), upstream);
                     });
  return {results[0], results[1]};
}

}  // namespace tasuki::functions

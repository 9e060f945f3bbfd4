// Embeddings, and LSTM and GRU as sequence_operations.hpp describes them: one product for the
// inputs of all steps, and per step one product of the states and one kernel for the gates.
#include "tensor/sequence_operations.hpp"

#include <algorithm>

#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/embedding_kernels.hpp"
#include "tensor/cuda/matmul.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/recurrent_kernels.hpp"
#include "tensor/embed_check.hpp"
#include "tensor/recurrent_check.hpp"

namespace tasuki {
namespace {

kernels::Ids ids_of(const Tensor& ids, std::optional<std::int64_t> ignore) {
  return {ids.raw(), ids.dtype(), ids.count(), ignore.value_or(0), ignore.has_value()};
}

struct Forward final : Workspace {
  explicit Forward(const RecurrentSizes& s) : sizes(s) {}
  RecurrentSizes sizes;
  kernels::Sequences sequences;
  Tensor lengths;
  Tensor x;            // T N x D, time-major
  Tensor gates;        // T N x G H, float32
  Tensor h;            // (T + 1) N x H: before each step
  Tensor c;            // the same of c in float32, of an LSTM
  Tensor recurrent_n;  // T N x H in float32, of a GRU

  kernels::ForwardSteps arrays() const {
    return {.gates = static_cast<float*>(gates.raw()),
            .products = nullptr,
            .bh = nullptr,
            .h = h.raw(),
            .c = static_cast<float*>(c.raw()),
            .recurrent_n = static_cast<float*>(recurrent_n.raw()),
            .y = nullptr,
            .states = nullptr};
  }
};

SequenceOperations::Outputs run_recurrent(const RecurrentLayer& layer, const Tensor& input,
                                          const Tensor& lengths, const Tensor& initial,
                                          std::shared_ptr<Workspace>* workspace) {
  check_activation(input, "recurrent layer");
  const RecurrentSizes sizes = check_recurrent(layer, input, lengths, initial);
  const Device device = input.device();
  const DType type = input.dtype();
  for (const Tensor* const w : {&layer.wx, &layer.wh})
    check_weights(*w, device, type, "recurrent layer");
  for (const Tensor* const b : {&layer.bx, &layer.bh})
    check_parameter(*b, device, "recurrent layer");
  TASUKI_CHECK(lengths.device() == device && (!initial || initial.dtype() == type),
               "recurrent layer: lengths on {} and states of {} for an input of {} on {}",
               lengths.device().text(), initial ? name_of(initial.dtype()) : "no type",
               name_of(type), device.text());
  CudaContext& context = CudaContext::of(device);
  const Launch launch = context.launch();
  const auto made = std::make_shared<Forward>(sizes);
  Forward& kept = *made;
  const std::int64_t units = sizes.units, width = sizes.gates * units;
  const std::int64_t rows = sizes.steps * sizes.items;
  const bool is_lstm = layer.kind == Recurrence::lstm;
  const auto empty = [&](std::int64_t count, std::int64_t columns, DType of) {
    return Tensor::empty({count, columns}, of, device);
  };

  SequenceOperations::Outputs outputs{Tensor::empty(sizes.y(), type, device),
                                      Tensor::empty(sizes.last_states(), type, device)};
  kept.lengths = lengths.plain();
  kept.sequences = {type,
                    kept.lengths.data<std::int64_t>(),
                    sizes.items,
                    sizes.steps,
                    units,
                    sizes.states,
                    layer.is_reversed};
  kept.x = empty(rows, sizes.inputs, type);
  kept.gates = empty(rows, width, DType::float32);
  kept.h = empty(rows + sizes.items, units, type);
  if (is_lstm)
    kept.c = empty(rows + sizes.items, units, DType::float32);
  else
    kept.recurrent_n = empty(rows, units, DType::float32);
  if (workspace != nullptr) *workspace = made;
  if (outputs.states.count() == 0) return outputs;

  const Tensor x = input.plain(), states = initial ? initial.plain() : initial;
  const Tensor products = empty(sizes.items, width, DType::float32);
  kernels::ForwardSteps arrays = kept.arrays();
  arrays.products = products.data<float>();
  arrays.bh = layer.bh.data<float>();
  arrays.y = outputs.y.raw();
  arrays.states = outputs.states.raw();
  kernels::begin_states(launch, kept.sequences, states.raw(), arrays);
  check_launch("first states of a recurrent layer");
  if (rows > 0) {
    if (kept.x.count() > 0)
      kernels::pack_steps(launch, kept.sequences, x.raw(), kept.x.raw(), sizes.inputs);
    check_launch("inputs of a recurrent layer");
    const Tensor wx = layer.wx.to(type), wh = layer.wh.to(type);
    multiply(context, {.transpose_b = true,
                       .m = rows,
                       .n = width,
                       .k = sizes.inputs,
                       .operands = type,
                       .a = kept.x.raw(),
                       .b = wx.raw(),
                       .c = kept.gates.raw(),
                       .bias = layer.bx.raw()});
    for (std::int64_t t = 0; t < sizes.steps; ++t) {
      multiply(context, {.transpose_b = true,
                         .m = sizes.items,
                         .n = width,
                         .k = units,
                         .operands = type,
                         .a = kept.h.slice(t * sizes.items, (t + 1) * sizes.items).raw(),
                         .b = wh.raw(),
                         .c = products.raw()});
      kernels::recurrent_step(launch, kept.sequences, arrays, t);
      check_launch("step of a recurrent layer");
    }
  }
  kernels::end_states(launch, kept.sequences, arrays);
  check_launch("last states of a recurrent layer");
  return outputs;
}

SequenceOperations::InputGradients run_recurrent_backward(
    const RecurrentLayer& layer, const SequenceOperations::Outputs& upstream,
    const Workspace& workspace, const RecurrentGradients& gradients) {
  const auto& kept = static_cast<const Forward&>(workspace);
  const RecurrentSizes& sizes = kept.sizes;
  check_recurrent_gradients(sizes, upstream);
  const Device device = kept.x.device();
  const DType type = kept.x.dtype();
  for (const Tensor* const gradient : {&upstream.y, &upstream.states})
    TASUKI_CHECK(!*gradient || (gradient->device() == device && gradient->dtype() == type),
                 "recurrent layer: expected a gradient in {} on {}, found one in {} on {}",
                 name_of(type), device.text(), name_of(gradient->dtype()),
                 gradient->device().text());
  CudaContext& context = CudaContext::of(device);
  Backend& gpu = backend(device);
  const Launch launch = context.launch();
  const std::int64_t units = sizes.units, width = sizes.gates * units;
  const std::int64_t rows = sizes.steps * sizes.items;
  const bool is_lstm = layer.kind == Recurrence::lstm;
  const Tensor dy = upstream.y ? upstream.y.plain() : Tensor();
  const Tensor dlast = upstream.states ? upstream.states.plain() : Tensor();

  const auto state_sums = [&] {
    return Tensor::zeros({sizes.items, units}, DType::float32, device);
  };
  const Tensor returned = state_sums(), carried = state_sums(), dc = state_sums();
  const Tensor dgates = Tensor::empty({rows, width}, type, device);
  const Tensor dproducts = is_lstm ? dgates : Tensor::empty({rows, width}, type, device);
  const kernels::BackwardSteps arrays{.dy = dy.raw(),
                                      .dlast = dlast.raw(),
                                      .returned = returned.data<float>(),
                                      .carried = carried.data<float>(),
                                      .dc = dc.data<float>(),
                                      .dgates = dgates.raw(),
                                      .dproducts = dproducts.raw()};
  SequenceOperations::InputGradients result;
  if (sizes.items * units > 0) {
    kernels::begin_gradients(launch, kept.sequences, arrays);
    check_launch("last states' gradients of a recurrent layer");
    const Tensor wh = layer.wh.to(type);
    for (std::int64_t t = sizes.steps; t-- > 0;) {
      kernels::recurrent_step_backward(launch, kept.sequences, kept.arrays(), arrays, t);
      check_launch("backward step of a recurrent layer");
      if (t > 0 || gradients.needs_dstates)
        multiply(context, {.m = sizes.items,
                           .n = units,
                           .k = width,
                           .operands = type,
                           .a = dproducts.slice(t * sizes.items, (t + 1) * sizes.items).raw(),
                           .b = wh.raw(),
                           .c = returned.raw()});
    }
  }
  if (gradients.needs_dstates) {
    result.dstates = Tensor::empty(sizes.last_states(), type, device);
    if (result.dstates.count() > 0)
      kernels::end_gradients(launch, kept.sequences, arrays, result.dstates.raw());
    check_launch("first states' gradients of a recurrent layer");
  }

  if (const auto& bx = gradients.bx; bx.tensor) gpu.backward_bias(dgates, bx.tensor, bx.accumulate);
  if (const auto& bh = gradients.bh; bh.tensor)
    gpu.backward_bias(dproducts, bh.tensor, bh.accumulate);
  if (const auto& wh = gradients.wh; wh.tensor)
    gpu.linear_backward_weights(kept.h.slice(0, rows), dproducts, wh.tensor, wh.accumulate, {});
  if (const auto& wx = gradients.wx; wx.tensor)
    gpu.linear_backward_weights(kept.x, dgates, wx.tensor, wx.accumulate, {});
  if (!gradients.needs_dx) return result;
  result.dx = Tensor::empty({sizes.items, sizes.steps, sizes.inputs}, type, device);
  if (result.dx.count() == 0) return result;
  const Tensor packed = gpu.linear_backward_data(dgates, layer.wx);
  kernels::unpack_steps(launch, kept.sequences, packed.raw(), result.dx.raw(), sizes.inputs);
  check_launch("input's gradient of a recurrent layer");
  return result;
}

class CudaSequenceOperations final : public SequenceOperations {
 public:
  Tensor embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) override {
    check_activation(w, "embed_id");
    Tensor y = Tensor::empty(check_embed(w, ids), w.dtype(), w.device());
    if (y.count() == 0) return y;
    kernels::embed(launch_on(w), w.dtype(), w.raw(), ids_of(ids, ignore), y.raw(), w.shape()[0],
                   w.shape()[1]);
    check_launch("embed_id");
    return y;
  }

  void embed_backward(const Tensor& ids, const Tensor& dy, std::optional<std::int64_t> ignore,
                      const Tensor& dw, bool accumulate) override {
    check_activation(dy, "embed_id");
    check_parameter(dw, dy.device(), "embed_id");
    check_embed_backward(ids, dy, dw);
    if (!accumulate) dw.fill(0);
    if (dy.count() == 0) return;
    const Tensor upstream = dy.plain();
    const auto scratch = kernels::embedding_scratch(ids.count(), dw.shape()[1]);
    const Tensor numbers = Tensor::empty({scratch.numbers}, DType::int64, dy.device());
    const Tensor sums = Tensor::empty({scratch.sums}, DType::float32, dy.device());
    kernels::embed_backward(launch_on(dy), dy.dtype(), ids_of(ids, ignore), upstream.raw(),
                            dw.data<float>(), dw.shape()[0], dw.shape()[1],
                            numbers.data<std::int64_t>(), sums.data<float>());
    check_launch("gradient of embed_id");
  }

  Outputs recurrent(const RecurrentLayer& layer, const Tensor& x, const Tensor& lengths,
                    const Tensor& states, std::shared_ptr<Workspace>* workspace) override {
    return run_recurrent(layer, x, lengths, states, workspace);
  }
  InputGradients recurrent_backward(const RecurrentLayer& layer, const Outputs& upstream,
                                    const Workspace& workspace,
                                    const RecurrentGradients& gradients) override {
    return run_recurrent_backward(layer, upstream, workspace, gradients);
  }
};

}  // namespace

SequenceOperations& CudaBackend::sequences() {
  static CudaSequenceOperations operations;
  return operations;
}

}  // namespace tasuki

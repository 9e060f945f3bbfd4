#include "tensor/cpu/sequences.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/packed_steps.hpp"
#include "tensor/cpu/recurrent_kernels.hpp"
#include "tensor/cpu/step_product.hpp"
#include "tensor/parallel.hpp"
#include "tensor/recurrent_check.hpp"

namespace tasuki {
namespace {

// Rows of all steps, as PackedSteps orders them. h before step t + 1 is written by step t. x, gates
// and h_before, which products read, have the type of the activations; the others are float32.
struct Forward final : Workspace {
  Forward(const RecurrentSizes& s, PackedSteps p) : sizes(s), steps(std::move(p)) {}
  RecurrentSizes sizes;
  PackedSteps steps;
  Tensor x;            // D
  Tensor gates;        // G H
  Tensor h_before;     // H; with rows behind it that step products read
  Tensor c;            // H, of an LSTM: before the first step, then after each
  Tensor recurrent_n;  // H, of a GRU

  // The cells of row j before and after step t.
  float* c_before(std::int64_t t, std::int64_t j) const {
    return t == 0 ? c.data<float>() + j * sizes.units : c_after(t - 1, j);
  }
  float* c_after(std::int64_t t, std::int64_t j) const {
    return c.data<float>() + (steps.active(0) + steps.first_row(t) + j) * sizes.units;
  }
};

std::int64_t row_grain(std::int64_t units) {
  return std::max<std::int64_t>(1, 8192 / units);
}

// The offset of an example's state in an array of N x S x H, and of its element in one of N x T x
// H.
std::int64_t at_state(const RecurrentSizes& sizes, std::int64_t example, int which) {
  return (example * sizes.states + which) * sizes.units;
}
std::int64_t at_element(const RecurrentSizes& sizes, std::int64_t example, std::int64_t element) {
  return (example * sizes.steps + element) * sizes.units;
}

// The units there, zeros if there is no array; `block` has room for them.
const float* units_of(const FloatElements& array, std::int64_t at, std::int64_t units,
                      float* block) {
  if (array) return array.read(at, units, block);
  std::fill_n(block, units, 0.0f);
  return block;
}

// Memory of a thread for rows of floats that are read from, or written to, 16 bits.
float* scratch(std::int64_t count) {
  thread_local std::vector<float> memory;
  if (std::ssize(memory) < count) memory.resize(static_cast<std::size_t>(count));
  return memory.data();
}

// What begins and what ends with an example: its first states, zeros for padding, and the last
// states of an empty sequence.
void begin_examples(const Forward& kept, const Tensor& states,
                    const SequenceOperations::Outputs& outputs) {
  const RecurrentSizes& sizes = kept.sizes;
  const std::int64_t units = sizes.units;
  float* const block = scratch(units);
  const FloatElements first(states), last(outputs.states);
  for (std::int64_t j = 0; j < sizes.items; ++j) {
    const std::int64_t i = kept.steps.example(j), length = kept.steps.length(j);
    outputs.y.reshape({sizes.items * sizes.steps, units})
        .slice(i * sizes.steps + length, (i + 1) * sizes.steps)
        .fill(0);
    for (int which = 0; which < sizes.states; ++which) {
      const float* const given = units_of(first, at_state(sizes, i, which), units, block);
      if (length == 0)
        last.store(at_state(sizes, i, which), units, given);
      else
        FloatElements(which == 0 ? kept.h_before : kept.c).store(j * units, units, given);
    }
  }
}

// The steps of a forward pass after their products, which are G H values for each row.
class StepRows {
 public:
  StepRows(const Forward& kept, bool is_lstm, const SequenceOperations::Outputs& outputs)
      : kept_(kept),
        is_lstm_(is_lstm),
        gates_(kept.gates),
        h_before_(kept.h_before),
        y_(outputs.y),
        last_(outputs.states) {}

  void run(std::int64_t t, std::int64_t j, const float* products) const {
    const RecurrentSizes& sizes = kept_.sizes;
    const PackedSteps& steps = kept_.steps;
    const std::int64_t units = sizes.units, width = sizes.gates * units;
    const std::int64_t row = steps.first_row(t) + j, i = steps.example(j);
    float* const block = scratch(width + 2 * units);
    float* const gates = gates_.place(row * width, block);
    gates_.read(row * width, width, block);
    const std::int64_t element = at_element(sizes, i, steps.element(j, t));
    float* const h = y_.place(element, block + width);
    float* const c = is_lstm_ ? kept_.c_after(t, j) : nullptr;
    if (is_lstm_)
      lstm_gates(gates, products, kept_.c_before(t, j), c, h, units);
    else
      gru_gates(gates, products, h_before_.read(row * units, units, block + width + units),
                kept_.recurrent_n.data<float>() + row * units, h, units);
    gates_.write(row * width, width, gates);
    y_.write(element, units, h);
    if (t + 1 < steps.length(j)) {
      h_before_.store((steps.first_row(t + 1) + j) * units, units, h);
    } else {
      last_.store(at_state(sizes, i, 0), units, h);
      if (is_lstm_) last_.store(at_state(sizes, i, 1), units, c);
    }
  }

 private:
  const Forward& kept_;
  bool is_lstm_;
  FloatElements gates_, h_before_, y_, last_;
};

// The layer with weights of the activations' type, in which an optimizer may keep them already.
RecurrentLayer in_type_of(const RecurrentLayer& layer, DType type) {
  RecurrentLayer rounded = layer;
  rounded.wx = layer.wx.to(type);
  rounded.wh = layer.wh.to(type);
  return rounded;
}

// Products with the weights in oneDNN's order.
struct Products final : Workspace {
  Products(const RecurrentLayer& layer, std::int64_t items)
      : of_h(layer.wh, StepProduct::Direction::forward, items) {}
  StepProduct of_h;
  std::optional<StepProduct> of_x;  // of weights that are prepared for single steps
};

// What the inputs of all steps add to the gates, for the rows of kept.x. One step of weights that
// are prepared is a step product, too.
Tensor input_gates(const RecurrentLayer& layer, const Forward& kept, Products& products) {
  Backend& cpu = backend(Device::cpu());
  // A GRU needs the bias of h apart from that of x.
  const Tensor bias =
      layer.kind == Recurrence::lstm ? cpu.add(layer.bx, layer.bh) : Tensor(layer.bx);
  const std::int64_t rows = kept.steps.rows();
  const bool is_step = layer.prepared && kept.steps.steps() == 1 && kept.sizes.inputs > 0;
  if (!is_step) return cpu.linear(kept.x, layer.wx, bias, /*relu=*/false);
  const std::int64_t padded = products.of_x->padded(rows);
  const Tensor x = Tensor::zeros({padded, kept.sizes.inputs}, kept.x.dtype());
  x.slice(0, rows).copy_from(kept.x);
  const Tensor gates = Tensor::empty({padded, layer.wx.shape()[0]});
  products.of_x->run(rows, x, gates.data<float>(), bias.data<float>());
  return in_type(gates, x.dtype());
}

}  // namespace

SequenceOperations::Outputs cpu_recurrent(const RecurrentLayer& layer, const Tensor& input,
                                          const Tensor& lengths, const Tensor& initial,
                                          std::shared_ptr<Workspace>* workspace) {
  const RecurrentSizes sizes = check_recurrent(layer, input, lengths, initial);
  const Tensor x = input.plain(), states = initial ? initial.plain() : initial;
  const auto made =
      std::make_shared<Forward>(sizes, PackedSteps(lengths, sizes.steps, layer.is_reversed));
  Forward& kept = *made;
  const PackedSteps& steps = kept.steps;
  const std::int64_t units = sizes.units, width = sizes.gates * units;
  const bool is_lstm = layer.kind == Recurrence::lstm;
  const DType type = x.dtype();

  SequenceOperations::Outputs outputs{Tensor::empty(sizes.y(), type),
                                      Tensor::empty(sizes.last_states(), type)};
  const auto weights = layer.prepared
                           ? std::static_pointer_cast<Products>(layer.prepared)
                           : std::make_shared<Products>(in_type_of(layer, type), sizes.items);
  StepProduct& product = weights->of_h;
  const std::int64_t slack = steps.steps() > 0 ? product.padded(sizes.items) : 0;
  kept.x = steps.pack(x);
  kept.h_before = Tensor::zeros({steps.rows() + slack, units}, type);
  if (is_lstm)
    kept.c = Tensor::empty({steps.active(0) + steps.rows(), units});
  else
    kept.recurrent_n = Tensor::empty({steps.rows(), units});
  begin_examples(kept, states, outputs);
  kept.gates = input_gates(layer, kept, *weights);
  const Tensor products = Tensor::empty({slack, width});
  const StepRows rows(kept, is_lstm, outputs);
  for (std::int64_t t = 0; t < steps.steps(); ++t) {
    const std::int64_t active = steps.active(t), first = steps.first_row(t);
    product.run(active, kept.h_before.slice(first, kept.h_before.shape()[0]),
                products.data<float>(), is_lstm ? nullptr : layer.bh.data<float>());
    parallel_for(active, row_grain(units), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) rows.run(t, j, products.data<float>() + j * width);
    });
  }
  if (workspace != nullptr) *workspace = made;
  return outputs;
}

std::shared_ptr<Workspace> cpu_prepare_recurrent(const RecurrentLayer& layer, std::int64_t items) {
  auto products = std::make_shared<Products>(layer, items);
  products->of_x.emplace(layer.wx, StepProduct::Direction::forward, items);
  return products;
}

namespace {

void write_bias(Backend& cpu, const Tensor& sums, const RecurrentGradients::Destination& to) {
  if (!to.tensor) return;
  if (to.accumulate)
    cpu.accumulate(to.tensor, sums, 1);
  else
    to.tensor.copy_from(sums);
}

}  // namespace

SequenceOperations::InputGradients cpu_recurrent_backward(
    const RecurrentLayer& layer, const SequenceOperations::Outputs& upstream,
    const Workspace& workspace, const RecurrentGradients& gradients) {
  const auto& kept = static_cast<const Forward&>(workspace);
  const RecurrentSizes& sizes = kept.sizes;
  const PackedSteps& steps = kept.steps;
  Backend& cpu = backend(Device::cpu());
  check_recurrent_gradients(sizes, upstream);
  const Tensor dy = upstream.y ? upstream.y.plain() : Tensor();
  const Tensor dlast = upstream.states ? upstream.states.plain() : Tensor();
  const std::int64_t units = sizes.units, width = sizes.gates * units;
  const bool is_lstm = layer.kind == Recurrence::lstm;
  const DType type = kept.x.dtype();
  StepProduct product(layer.wh.to(type), StepProduct::Direction::backward, sizes.items);
  const std::int64_t slack = steps.steps() > 0 ? product.padded(sizes.items) : 0;

  // Of each row j: the gradient of h that comes back through products, the part of it that does not
  // (GRU), that of c (LSTM), and the sum that a step starts from.
  const Tensor returned = Tensor::zeros({slack, units}), carried = Tensor::zeros({slack, units});
  const Tensor dc = Tensor::empty({sizes.items, units}), dh = Tensor::empty({sizes.items, units});
  // With rows behind them that step products read.
  const Tensor dgates = Tensor::empty({steps.rows() + slack, width}, type);
  const Tensor dproducts = is_lstm ? dgates : Tensor::empty({steps.rows() + slack, width}, type);
  dproducts.slice(steps.rows(), steps.rows() + slack).fill(0);
  const auto at = [](const Tensor& rows, std::int64_t row) {
    return rows.data<float>() + row * rows.shape()[1];
  };
  const FloatElements from_dy(dy), from_dlast(dlast), gates(kept.gates), h_before(kept.h_before),
      to_dgates(dgates), to_dproducts(dproducts);

  for (std::int64_t t = steps.steps(); t-- > 0;) {
    const std::int64_t active = steps.active(t), first = steps.first_row(t);
    parallel_for(active, row_grain(units), [&](std::int64_t begin, std::int64_t end) {
      float* const block = scratch(3 * width + units);
      float* const of_units = block + 3 * width;
      for (std::int64_t j = begin; j < end; ++j) {
        const std::int64_t i = steps.example(j), row = first + j;
        if (j >= steps.active(t + 1)) {  // the example's last element
          std::copy_n(units_of(from_dlast, at_state(sizes, i, 0), units, of_units), units,
                      at(dh, j));
          if (is_lstm)
            std::copy_n(units_of(from_dlast, at_state(sizes, i, 1), units, of_units), units,
                        at(dc, j));
        } else if (is_lstm) {
          std::copy_n(at(returned, j), units, at(dh, j));
        } else {
          add_rows(at(returned, j), at(carried, j), at(dh, j), units);
        }
        if (from_dy)
          add_rows(from_dy.read(at_element(sizes, i, steps.element(j, t)), units, of_units),
                   at(dh, j), at(dh, j), units);
        const float* const of_gates = gates.read(row * width, width, block);
        float* const slopes = to_dgates.place(row * width, block + width);
        if (is_lstm) {
          lstm_gates_backward(of_gates, kept.c_before(t, j), kept.c_after(t, j), at(dh, j),
                              at(dc, j), slopes, units);
        } else {
          float* const of_products = to_dproducts.place(row * width, block + 2 * width);
          gru_gates_backward(of_gates, h_before.read(row * units, units, of_units),
                             at(kept.recurrent_n, row), at(dh, j), slopes, of_products,
                             at(carried, j), units);
          to_dproducts.write(row * width, width, of_products);
        }
        to_dgates.write(row * width, width, slopes);
      }
    });
    if (t > 0 || gradients.needs_dstates)
      product.run(active, dproducts.slice(first, dproducts.shape()[0]), returned.data<float>());
  }

  const Tensor dg = dgates.slice(0, steps.rows());
  const Tensor dp = dproducts.slice(0, steps.rows());
  const Tensor sums = Tensor::empty({width});
  cpu.backward_bias(dg, sums, false);
  write_bias(cpu, sums, gradients.bx);
  if (!is_lstm) cpu.backward_bias(dp, sums, false);
  write_bias(cpu, sums, gradients.bh);
  if (gradients.wh.tensor)
    cpu.linear_backward_weights(kept.h_before.slice(0, steps.rows()), dp, gradients.wh.tensor,
                                gradients.wh.accumulate, {});
  if (gradients.wx.tensor)
    cpu.linear_backward_weights(kept.x, dg, gradients.wx.tensor, gradients.wx.accumulate, {});

  SequenceOperations::InputGradients result;
  if (gradients.needs_dx)
    result.dx = steps.unpack(cpu.linear_backward_data(dg, layer.wx), sizes.steps);
  if (!gradients.needs_dstates) return result;
  result.dstates = Tensor::empty(sizes.last_states(), type);
  const FloatElements to_dstates(result.dstates);
  float* const block = scratch(units);
  for (std::int64_t j = 0; j < sizes.items; ++j) {
    const std::int64_t i = steps.example(j);
    if (steps.length(j) == 0) {
      for (int which = 0; which < sizes.states; ++which)
        to_dstates.store(at_state(sizes, i, which), units,
                         units_of(from_dlast, at_state(sizes, i, which), units, block));
    } else if (is_lstm) {
      to_dstates.store(at_state(sizes, i, 0), units, at(returned, j));
      to_dstates.store(at_state(sizes, i, 1), units, at(dc, j));
    } else {
      add_rows(at(returned, j), at(carried, j), block, units);
      to_dstates.store(at_state(sizes, i, 0), units, block);
    }
  }
  return result;
}

}  // namespace tasuki

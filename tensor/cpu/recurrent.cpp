#include "tensor/cpu/sequences.hpp"

#include <algorithm>

#include "tensor/cpu/packed_steps.hpp"
#include "tensor/cpu/recurrent_kernels.hpp"
#include "tensor/cpu/step_product.hpp"
#include "tensor/parallel.hpp"
#include "tensor/recurrent_check.hpp"

namespace tasuki {
namespace {

// Rows of all steps, as PackedSteps orders them. States before step t + 1 are written by step t.
struct Forward final : Workspace {
  Forward(const RecurrentSizes& s, PackedSteps p) : sizes(s), steps(std::move(p)) {}
  RecurrentSizes sizes;
  PackedSteps steps;
  Tensor x;            // D
  Tensor gates;        // G H
  Tensor h_before;     // H; with rows behind it that step products read
  Tensor c_before, c;  // H, of an LSTM
  Tensor recurrent_n;  // H, of a GRU
};

std::int64_t row_grain(std::int64_t units) {
  return std::max<std::int64_t>(1, 8192 / units);
}

// In `states` (N x S x H); null if there are none.
float* state(const Tensor& states, const RecurrentSizes& sizes, std::int64_t example, int which) {
  return states ? states.data<float>() + (example * sizes.states + which) * sizes.units : nullptr;
}

// In `y` (N x T x H); null if there is none.
float* element_of(const Tensor& y, const RecurrentSizes& sizes, std::int64_t example,
                  std::int64_t element) {
  return y ? y.data<float>() + (example * sizes.steps + element) * sizes.units : nullptr;
}

void copy_or_zero(const float* from, float* to, std::int64_t count) {
  if (from != nullptr)
    std::copy_n(from, count, to);
  else
    std::fill_n(to, count, 0.0f);
}

// What begins and what ends with an example: its first states, zeros for padding, and the last
// states of an empty sequence.
void begin_examples(const Forward& kept, const Tensor& states,
                    const SequenceOperations::Outputs& outputs) {
  const RecurrentSizes& sizes = kept.sizes;
  const std::int64_t units = sizes.units;
  for (std::int64_t j = 0; j < sizes.items; ++j) {
    const std::int64_t i = kept.steps.example(j), length = kept.steps.length(j);
    std::fill_n(element_of(outputs.y, sizes, i, length), (sizes.steps - length) * units, 0.0f);
    for (int which = 0; which < sizes.states; ++which) {
      const Tensor& before = which == 0 ? kept.h_before : kept.c_before;
      copy_or_zero(
          state(states, sizes, i, which),
          length == 0 ? state(outputs.states, sizes, i, which) : before.data<float>() + j * units,
          units);
    }
  }
}

// One step of row j after the product; `products`: G H values.
void step_row(const Forward& kept, bool is_lstm, std::int64_t t, std::int64_t j,
              const float* products, const SequenceOperations::Outputs& outputs) {
  const RecurrentSizes& sizes = kept.sizes;
  const PackedSteps& steps = kept.steps;
  const std::int64_t units = sizes.units, row = steps.first_row(t) + j, i = steps.example(j);
  float* const gates = kept.gates.data<float>() + row * sizes.gates * units;
  const float* const h_before = kept.h_before.data<float>() + row * units;
  float* const h = element_of(outputs.y, sizes, i, steps.element(j, t));
  float* const c = is_lstm ? kept.c.data<float>() + row * units : nullptr;
  if (is_lstm)
    lstm_gates(gates, products, kept.c_before.data<float>() + row * units, c, h, units);
  else
    gru_gates(gates, products, h_before, kept.recurrent_n.data<float>() + row * units, h, units);
  const bool goes_on = t + 1 < steps.length(j);
  const std::int64_t next = goes_on ? steps.first_row(t + 1) + j : 0;
  std::copy_n(
      h, units,
      goes_on ? kept.h_before.data<float>() + next * units : state(outputs.states, sizes, i, 0));
  if (is_lstm)
    std::copy_n(
        c, units,
        goes_on ? kept.c_before.data<float>() + next * units : state(outputs.states, sizes, i, 1));
}

// Products with the weights in oneDNN's order.
struct Products final : Workspace {
  Products(const RecurrentLayer& layer, std::int64_t items)
      : of_x(layer.wx, StepProduct::Direction::forward, items),
        of_h(layer.wh, StepProduct::Direction::forward, items) {}
  StepProduct of_x, of_h;
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
  const std::int64_t padded = products.of_x.padded(rows);
  const Tensor x = Tensor::zeros({padded, kept.sizes.inputs});
  x.slice(0, rows).copy_from(kept.x);
  Tensor gates = Tensor::empty({padded, layer.wx.shape()[0]});
  products.of_x.run(rows, x.data<float>(), gates.data<float>(), bias.data<float>());
  return gates;
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

  SequenceOperations::Outputs outputs{Tensor::empty(sizes.y()), Tensor::empty(sizes.last_states())};
  const auto weights = layer.prepared ? std::static_pointer_cast<Products>(layer.prepared)
                                      : std::make_shared<Products>(layer, sizes.items);
  StepProduct& product = weights->of_h;
  const std::int64_t slack = steps.steps() > 0 ? product.padded(sizes.items) : 0;
  kept.x = steps.pack(x);
  kept.h_before = Tensor::zeros({steps.rows() + slack, units});
  if (is_lstm) {
    kept.c_before = Tensor::empty({steps.rows(), units});
    kept.c = Tensor::empty({steps.rows(), units});
  } else {
    kept.recurrent_n = Tensor::empty({steps.rows(), units});
  }
  begin_examples(kept, states, outputs);
  kept.gates = input_gates(layer, kept, *weights);
  const Tensor products = Tensor::empty({slack, width});
  for (std::int64_t t = 0; t < steps.steps(); ++t) {
    const std::int64_t active = steps.active(t);
    product.run(active, kept.h_before.data<float>() + steps.first_row(t) * units,
                products.data<float>(), is_lstm ? nullptr : layer.bh.data<float>());
    parallel_for(active, row_grain(units), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j)
        step_row(kept, is_lstm, t, j, products.data<float>() + j * width, outputs);
    });
  }
  if (workspace != nullptr) *workspace = made;
  return outputs;
}

std::shared_ptr<Workspace> cpu_prepare_recurrent(const RecurrentLayer& layer, std::int64_t items) {
  return std::make_shared<Products>(layer, items);
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
  StepProduct product(layer.wh, StepProduct::Direction::backward, sizes.items);
  const std::int64_t slack = steps.steps() > 0 ? product.padded(sizes.items) : 0;

  // Of each row j: the gradient of h that comes back through products, the part of it that does not
  // (GRU), that of c (LSTM), and the sum that a step starts from.
  const Tensor returned = Tensor::zeros({slack, units}), carried = Tensor::zeros({slack, units});
  const Tensor dc = Tensor::empty({sizes.items, units}), dh = Tensor::empty({sizes.items, units});
  // With rows behind them that step products read.
  const Tensor dgates = Tensor::empty({steps.rows() + slack, width});
  const Tensor dproducts = is_lstm ? dgates : Tensor::empty({steps.rows() + slack, width});
  dproducts.slice(steps.rows(), steps.rows() + slack).fill(0);
  const auto at = [](const Tensor& rows, std::int64_t row) {
    return rows.data<float>() + row * rows.shape()[1];
  };

  for (std::int64_t t = steps.steps(); t-- > 0;) {
    const std::int64_t active = steps.active(t), first = steps.first_row(t);
    parallel_for(active, row_grain(units), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        const std::int64_t i = steps.example(j), row = first + j;
        if (j >= steps.active(t + 1)) {  // the example's last element
          copy_or_zero(state(dlast, sizes, i, 0), at(dh, j), units);
          if (is_lstm) copy_or_zero(state(dlast, sizes, i, 1), at(dc, j), units);
        } else if (is_lstm) {
          std::copy_n(at(returned, j), units, at(dh, j));
        } else {
          add_rows(at(returned, j), at(carried, j), at(dh, j), units);
        }
        if (const float* const from_output = element_of(dy, sizes, i, steps.element(j, t)))
          add_rows(from_output, at(dh, j), at(dh, j), units);
        if (is_lstm)
          lstm_gates_backward(at(kept.gates, row), at(kept.c_before, row), at(kept.c, row),
                              at(dh, j), at(dc, j), at(dgates, row), units);
        else
          gru_gates_backward(at(kept.gates, row), at(kept.h_before, row), at(kept.recurrent_n, row),
                             at(dh, j), at(dgates, row), at(dproducts, row), at(carried, j), units);
      }
    });
    if (t > 0 || gradients.needs_dstates)
      product.run(active, at(dproducts, first), returned.data<float>());
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
  result.dstates = Tensor::empty(sizes.last_states());
  for (std::int64_t j = 0; j < sizes.items; ++j) {
    const std::int64_t i = steps.example(j);
    float* const to = state(result.dstates, sizes, i, 0);
    if (steps.length(j) == 0) {
      copy_or_zero(state(dlast, sizes, i, 0), to, sizes.states * units);
    } else if (is_lstm) {
      std::copy_n(at(returned, j), units, to);
      std::copy_n(at(dc, j), units, to + units);
    } else {
      add_rows(at(returned, j), at(carried, j), to, units);
    }
  }
  return result;
}

}  // namespace tasuki

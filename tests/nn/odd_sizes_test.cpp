// Layers and losses in sizes that fill no vector and no tile, against their definitions in double:
// in float32, and in bfloat16, where a definition gets the rounded inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "definition.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/functions/sequences.hpp"
#include "reference_check.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::defined_case;
using testing::Inputs;
using testing::Number;
using testing::Numbers;
using testing::ReferenceCase;
using testing::Subject;
using Arrays = std::map<std::string, Numbers>;

constexpr std::int64_t sizes[] = {1, 3, 33, 100};

// Numbers that bfloat16 has, in [-scale, scale).
Tensor rounded(const Shape& shape, std::uint64_t seed, double scale = 1) {
  const Tensor made = testing::random_tensor(shape, seed);
  for (float& value : made.span<float>()) value *= static_cast<float>(scale);
  return made.to(DType::bfloat16).to(DType::float32);
}

// Weights of so many inputs: their sums have the size of one input.
Tensor weights(const Shape& shape, std::uint64_t seed) {
  return rounded(shape, seed, std::sqrt(3.0 / static_cast<double>(shape[shape.rank() - 1])));
}

Tensor labels(const Shape& shape, std::int64_t classes) {
  Tensor made = Tensor::empty(shape, DType::int64);
  for (std::int64_t i = 0; i < made.count(); ++i)
    made.data<std::int64_t>()[i] = i % 7 == 3 ? -1 : (5 * i + 2) % classes;
  return made;
}

void check(const Subject& run, const ReferenceCase& test) {
  testing::check_case(run, test);
  testing::check_rounded_case(run, test);
}

const Number* row(const Numbers& array, std::int64_t width, std::int64_t index) {
  return array.data() + index * width;
}
Number dot(const Number* a, const Number* b, std::int64_t count) {
  Number sum;
  for (std::int64_t i = 0; i < count; ++i) sum = sum + a[i] * b[i];
  return sum;
}

TEST(OddSizes, Linear) {
  for (const std::int64_t items : sizes)
    for (const std::int64_t in : sizes)
      for (const std::int64_t out : sizes)
        check(
            [](const Inputs& of, const ReferenceCase&) {
              return F::linear(of.at("x"), of.at("w"), of.at("b"));
            },
            defined_case(fmt::format("{} x {} x {}", items, in, out), {},
                         {{"x", rounded({items, in}, 1)},
                          {"w", weights({out, in}, 2)},
                          {"b", rounded({out}, 3)}},
                         {items, out}, [&](const Arrays& of) {
                           Numbers y;
                           for (std::int64_t i = 0; i < items; ++i)
                             for (std::int64_t o = 0; o < out; ++o)
                               y.push_back(dot(row(of.at("x"), in, i), row(of.at("w"), in, o), in) +
                                           of.at("b")[static_cast<std::size_t>(o)]);
                           return y;
                         }));
}

// --- recurrent layers ---

struct RecurrentSize {
  std::int64_t items, steps, inputs, units;
};

// One example: all hidden states, then the last ones, of which an LSTM has two kinds.
Numbers states_of_example(Recurrence kind, const RecurrentSize& size, const Number* x,
                          const Arrays& of) {
  const std::int64_t gates = gates_of(kind);
  const auto units = static_cast<std::size_t>(size.units);
  Numbers h(units), c(units), all;
  for (std::int64_t step = 0; step < size.steps; ++step, x += size.inputs) {
    const Numbers before = h;
    for (std::size_t u = 0; u < units; ++u) {
      const auto from = [&](std::int64_t matrix, const Number* values, std::int64_t width) {
        return dot(row(of.at(fmt::format("w{}", matrix)), width, static_cast<std::int64_t>(u)),
                   values, width) +
               of.at(fmt::format("b{}", matrix))[u];
      };
      const auto of_x = [&](std::int64_t gate) { return from(gate, x, size.inputs); };
      const auto of_h = [&](std::int64_t gate) {
        return from(gates + gate, before.data(), size.units);
      };
      if (kind == Recurrence::lstm) {
        const Number in = sigmoid(of_x(0) + of_h(0)), forget = sigmoid(of_x(1) + of_h(1)),
                     new_cell = tanh(of_x(2) + of_h(2)), out = sigmoid(of_x(3) + of_h(3));
        c[u] = forget * c[u] + in * new_cell;
        h[u] = out * tanh(c[u]);
      } else {
        const Number reset = sigmoid(of_x(0) + of_h(0)), keep = sigmoid(of_x(1) + of_h(1));
        const Number candidate = tanh(of_x(2) + reset * of_h(2));
        h[u] = candidate + keep * (before[u] - candidate);
      }
    }
    all.insert(all.end(), h.begin(), h.end());
  }
  all.insert(all.end(), h.begin(), h.end());
  if (kind == Recurrence::lstm) all.insert(all.end(), c.begin(), c.end());
  return all;
}

// Gates are kept in 16 bits, so of one near 1 the rest to 1, by which its gradient is multiplied,
// is inexact. That is little of all gradients, but all of a single number's, which is left out.
TEST(OddSizes, RecurrentLayers) {
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru})
    for (const RecurrentSize& size :
         {RecurrentSize{33, 1, 1, 1}, RecurrentSize{1, 1, 1, 100}, RecurrentSize{100, 2, 1, 3},
          RecurrentSize{33, 3, 3, 1}, RecurrentSize{3, 3, 1, 33}, RecurrentSize{33, 2, 33, 33},
          RecurrentSize{3, 3, 33, 100}, RecurrentSize{1, 3, 100, 33},
          RecurrentSize{3, 2, 100, 100}}) {
      const std::int64_t gates = gates_of(kind);
      std::map<std::string, Tensor> inputs = {
          {"x", rounded({size.items, size.steps, size.inputs}, 1)}};
      for (std::int64_t i = 0; i < 2 * gates; ++i) {
        const std::int64_t width = i < gates ? size.inputs : size.units;
        const auto seed = static_cast<std::uint64_t>(10 + i);
        inputs[fmt::format("w{}", i)] = weights({size.units, width}, seed);
        inputs[fmt::format("b{}", i)] = rounded({size.units}, seed + 10);
      }
      const auto run = [&](const Inputs& of, const ReferenceCase&) {
        F::RecurrentWeights layer;
        for (std::int64_t i = 0; i < 2 * gates; ++i) {
          layer.w.push_back(of.at(fmt::format("w{}", i)));
          layer.b.push_back(of.at(fmt::format("b{}", i)));
        }
        const Tensor lengths =
            Tensor::full({size.items}, static_cast<double>(size.steps), DType::int64);
        const auto [y, states] = F::recurrent(kind, of.at("x"), lengths, {}, layer, false);
        return F::concat({y, states}, 1);
      };
      check(run, defined_case(fmt::format("{}: {} x {} of {}, {} units",
                                          kind == Recurrence::lstm ? "LSTM" : "GRU", size.items,
                                          size.steps, size.inputs, size.units),
                              {}, inputs, {size.items, size.steps + states_of(kind), size.units},
                              [&](const Arrays& of) {
                                Numbers all;
                                for (std::int64_t i = 0; i < size.items; ++i) {
                                  const Numbers one = states_of_example(
                                      kind, size, row(of.at("x"), size.steps * size.inputs, i), of);
                                  all.insert(all.end(), one.begin(), one.end());
                                }
                                return all;
                              }));
    }
}

// --- attention and normalisation ---

struct AttentionSize {
  std::int64_t items, queries, keys, heads, width;
};

Numbers attended(const AttentionSize& size, const Numbers& q, const Numbers& k, const Numbers& v) {
  const std::int64_t columns = size.heads * size.width;
  Numbers y(static_cast<std::size_t>(size.items * size.queries * columns));
  const Number scale{1 / std::sqrt(static_cast<double>(size.width))};
  for (std::int64_t item = 0; item < size.items; ++item)
    for (std::int64_t head = 0; head < size.heads; ++head)
      for (std::int64_t i = 0; i < size.queries; ++i) {
        const auto of_key = [&](const Numbers& array, std::int64_t j) {
          return row(array, columns, item * size.keys + j) + head * size.width;
        };
        const std::int64_t place = (item * size.queries + i) * columns + head * size.width;
        Numbers slopes;
        Number sum;
        for (std::int64_t j = 0; j < size.keys; ++j) {
          slopes.push_back(exp(scale * dot(q.data() + place, of_key(k, j), size.width)));
          sum = sum + slopes.back();
        }
        for (std::int64_t c = 0; c < size.width; ++c) {
          Number total;
          for (std::int64_t j = 0; j < size.keys; ++j)
            total = total + slopes[static_cast<std::size_t>(j)] * of_key(v, j)[c];
          y[static_cast<std::size_t>(place + c)] = total / sum;
        }
      }
  return y;
}

// Lengths that are multiples of 16, too: others are multiplied in float32.
TEST(OddSizes, Attention) {
  for (const AttentionSize& size :
       {AttentionSize{1, 1, 1, 1, 1}, AttentionSize{3, 1, 33, 1, 3}, AttentionSize{1, 33, 3, 3, 33},
        AttentionSize{1, 100, 33, 1, 3}, AttentionSize{3, 3, 100, 1, 100},
        AttentionSize{1, 16, 48, 3, 33}, AttentionSize{3, 48, 16, 1, 1},
        AttentionSize{1, 32, 16, 1, 100}, AttentionSize{1, 64, 64, 1, 3}}) {
    const std::int64_t columns = size.heads * size.width;
    const Shape of_q = {size.items, size.queries, columns}, of_k = {size.items, size.keys, columns};
    check(
        [&](const Inputs& of, const ReferenceCase&) {
          return F::attention(of.at("q"), of.at("k"), of.at("v"), {.heads = size.heads});
        },
        defined_case(
            fmt::format("{} of {} x {}, {} heads of {}", size.items, size.queries, size.keys,
                        size.heads, size.width),
            {}, {{"q", rounded(of_q, 1)}, {"k", rounded(of_k, 2)}, {"v", rounded(of_k, 3)}}, of_q,
            [&](const Arrays& of) { return attended(size, of.at("q"), of.at("k"), of.at("v")); }));
  }
}

TEST(OddSizes, LayerNorm) {
  constexpr float eps = 0.01f;
  for (const std::int64_t items : sizes)
    for (const std::int64_t width : sizes)
      check(
          [](const Inputs& of, const ReferenceCase&) {
            return F::layer_norm(of.at("x"), of.at("gamma"), of.at("beta"), eps);
          },
          defined_case(fmt::format("{} of {}", items, width), {},
                       {{"x", rounded({items, width}, 1, 3)},
                        {"gamma", rounded({width}, 2)},
                        {"beta", rounded({width}, 3)}},
                       {items, width}, [&](const Arrays& of) {
                         Numbers y;
                         const Number count{static_cast<double>(width)};
                         for (std::int64_t i = 0; i < items; ++i) {
                           const Number* const x = row(of.at("x"), width, i);
                           Number mean, variance;
                           for (std::int64_t c = 0; c < width; ++c) mean = mean + x[c] / count;
                           for (std::int64_t c = 0; c < width; ++c)
                             variance = variance + (x[c] - mean) * (x[c] - mean) / count;
                           for (std::int64_t c = 0; c < width; ++c)
                             y.push_back((x[c] - mean) / sqrt(variance + Number{double{eps}}) *
                                             of.at("gamma")[static_cast<std::size_t>(c)] +
                                         of.at("beta")[static_cast<std::size_t>(c)]);
                         }
                         return y;
                       }));
}

// --- losses ---

TEST(OddSizes, SoftmaxCrossEntropy) {
  for (const std::int64_t items : sizes)
    for (const std::int64_t classes : sizes)
      check(
          [](const Inputs& of, const ReferenceCase&) {
            return F::softmax_cross_entropy(of.at("x"), of.at("t").value());
          },
          defined_case(fmt::format("{} of {}", items, classes), {},
                       {{"x", rounded({items, classes}, 1, 4)}, {"t", labels({items}, classes)}},
                       {}, [&](const Arrays& of) {
                         Number loss;
                         double counted = 0;
                         for (std::int64_t i = 0; i < items; ++i) {
                           const auto t = static_cast<std::int64_t>(
                               of.at("t")[static_cast<std::size_t>(i)].value);
                           if (t < 0) continue;
                           const Number* const x = row(of.at("x"), classes, i);
                           Number sum;
                           for (std::int64_t c = 0; c < classes; ++c) sum = sum + exp(x[c]);
                           loss = loss + log(sum) - x[t];
                           ++counted;
                         }
                         return Numbers{loss / Number{counted}};
                       }));
}

// Losses of single values, as means of what `one` says.
void check_mean(const Subject& run, double scale,
                const std::function<Number(const Number& x, const Number& target)>& one) {
  for (const std::int64_t count : sizes)
    check(run, defined_case(fmt::format("{} values", count), {},
                            {{"x", rounded({count}, 1, scale)}, {"target", rounded({count}, 2)}},
                            {}, [&](const Arrays& of) {
                              Number sum;
                              for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                                sum = sum + one(of.at("x")[i], of.at("target")[i]);
                              return Numbers{sum / Number{static_cast<double>(count)}};
                            }));
}

TEST(OddSizes, LossesOfSingleValues) {
  check_mean(
      [](const Inputs& of, const ReferenceCase&) {
        return F::mean_squared_error(of.at("x"), of.at("target").value());
      },
      1, [](const Number& x, const Number& target) { return (x - target) * (x - target); });
  check_mean(
      [](const Inputs& of, const ReferenceCase&) {
        return F::huber_loss(of.at("x"), of.at("target").value(), 1);
      },
      3,
      [](const Number& x, const Number& target) {
        const Number apart = x - target, half{0.5};
        if (std::abs(apart.value) <= 1) return half * apart * apart;
        return (apart.value < 0 ? Number{} - apart : apart) - half;
      });
  check_mean(
      [](const Inputs& of, const ReferenceCase&) {
        return F::sigmoid_cross_entropy(of.at("x"), of.at("target").value());
      },
      5,
      [](const Number& x, const Number& target) { return log(Number{1} + exp(x)) - target * x; });
}

}  // namespace
}  // namespace tasuki

// A rule, hooks, a random function and iterators as programs write them: without a header of
// recordings (own_parts_headers.cpp checks that).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/philox.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "nn/function.hpp"
#include "nn/functions/arithmetic.hpp"
#include "optimizer/hook.hpp"
#include "tensor/backend.hpp"
#include "tensor/late_values.hpp"
#include "tests/optimizer/own_rules.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"

namespace tasuki::testing {

// Makes batches in new memory, which a recorded step would never look at again if they were not
// copied.
class Doubled : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;
  Batch next() override {
    const NoGrad no_grad;
    Batch batch = inner().next();
    const Variable x(batch["x"]);
    batch.set({.name = "x", .values = functions::add(x, x).value()});
    return batch;
  }
};

// Is a batch behind: what a batch is made from must still be there one step later.
class Delayed : public ForwardingIterator {
 public:
  explicit Delayed(std::unique_ptr<Iterator> inner)
      : ForwardingIterator(std::move(inner)), kept_(this->inner().next()) {}
  Batch next() override { return std::exchange(kept_, inner().next()); }
  void restore(const IteratorState& state) override {
    ForwardingIterator::restore(state);
    kept_ = inner().next();
  }

 private:
  Batch kept_;
};

// OwnMomentum with a kernel for the guarded device.
class MomentumEverywhere final : public OwnMomentum {
 public:
  std::string name() const override { return "MomentumEverywhere"; }
  bool has_gpu_kernel() const override { return true; }
  void apply_on_gpu(const RuleArena& arena) const override {
    on_guarded_device([arena, v = arena.states[0]] {
      for (std::int64_t i = 0; i < arena.count; ++i) {
        const UpdateFactors& k =
            arena.factors[arena.rows != nullptr ? arena.rows[i / elements_per_row_number] : 0];
        const float g = k.scale * arena.gradients[i] + k.decay * arena.parameters[i];
        v[i] = k.of_rule[1] * v[i] - k.of_rule[0] * g;
        arena.parameters[i] += v[i];
      }
    });
  }
};

// OwnLars with a kernel that reads the norms on the guarded device.
class LarsEverywhere final : public OwnLars {
 public:
  std::string name() const override { return "LarsEverywhere"; }
  bool has_gpu_kernel() const override { return true; }
  void apply_on_gpu(const RuleArena& arena) const override {
    on_guarded_device([arena] {
      for (std::int64_t i = 0; i < arena.count; ++i) {
        const UpdateFactors& k =
            arena.factors[arena.rows != nullptr ? arena.rows[i / elements_per_row_number] : 0];
        const double* const norms = arena.norms + 2 * arena.parameter_of[i / 16];
        const auto rate = static_cast<float>(k.of_rule[0] * norms[0] / norms[1]);
        arena.parameters[i] -=
            rate * (k.scale * arena.gradients[i] + k.decay * arena.parameters[i]);
      }
    });
  }
};

// Gradients that grow with the updates; biases get a decay that grows, too.
struct Growing final : FactorHook {
  std::string name() const override { return "Growing"; }
  void adjust(GradientFactors& factors, const ParameterInfo& parameter,
              std::int64_t t) const override {
    factors.scale *= 1 + 0.1 * static_cast<double>(t);
    if (parameter.shape.rank() == 1) factors.decay += 0.01 * static_cast<double>(t);
  }
};

// Adds noise that differs from step to step.
class Noise final : public ArrayHook {
 public:
  std::string name() const override { return "Noise"; }
  void apply(const GradientArrays& arrays) override {
    const Tensor noise = noise_.on(arrays.device(), arrays.gradients.count());
    backend(arrays.device()).accumulate(arrays.gradients, noise, 1);
    counted_.request();
  }

 private:
  std::int64_t steps_ = 0;
  LateValues<float> noise_{[this](std::span<float> out) {
    RandomStream random(9, static_cast<std::uint64_t>(steps_));
    for (float& value : out) value = 1e-3F * random.normal();
    // Padding has none.
    std::fill(out.begin() + 4, out.begin() + 16, 0.0F);
  }};
  AfterStep counted_{[this] { ++steps_; }};
};

// Clips the norm of the whole gradient.
struct OwnClipping final : NormHook {
  std::string name() const override { return "OwnClipping"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms>, double all,
              std::int64_t) const override {
    for (GradientFactors& each : factors) each.scale = std::min(1.0, 0.5 / all);
  }
};

// Dropout whose mask depends on the step alone, not on the examples.
class OwnDropout {
 public:
  Variable operator()(const Variable& x) {
    const Device device = x.value().device();
    const Tensor seed = seed_.on(device, 1), rows = rows_.on(device, x.shape()[0]);
    const auto drop = [seed, rows](const Tensor& values) {
      return backend(values.device()).dropout(values, 0.3F, seed, rows);
    };
    class Dropping final : public Function {
     public:
      explicit Dropping(std::function<Tensor(const Tensor&)> drop) : drop_(std::move(drop)) {}
      const char* name() const override { return "own_dropout"; }
      void backward(const Tensor& dy, Gradients& gradients) override {
        if (gradients.needed(0)) gradients.add(0, drop_(dy));
      }

     private:
      std::function<Tensor(const Tensor&)> drop_;
    };
    counted_.request();
    return Function::record(drop(x.value()), {x}, [&] { return std::make_unique<Dropping>(drop); });
  }

 private:
  std::int64_t steps_ = 0;
  LateValues<std::int64_t> seed_{[this](std::span<std::int64_t> out) { out[0] = 77 + steps_; }};
  LateValues<std::int64_t> rows_{[](std::span<std::int64_t> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
  }};
  AfterStep counted_{[this] { ++steps_; }};
};

}  // namespace tasuki::testing

#include <array>
#include <limits>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

// What an update wrote once more, less what it should be.
Tensor apart(const Tensor& rounded, const Tensor& parameter) {
  Tensor found = rounded.to(Device::cpu()).to(DType::float32);
  const Tensor expected = parameter.to(Device::cpu()).to(rounded.dtype()).to(DType::float32);
  backend(Device::cpu()).accumulate(found, expected, -1);
  return found;
}

// Three steps, so that states that were written are read. The rate and the constants are given with
// the step, or lie on the device.
Results update(Side& side, UpdateRule rule, std::int64_t count, DType rounded_type,
               bool has_device_factors) {
  const Tensor parameter = side.parameters({count});
  const std::array<Tensor, 2> state = {side.parameters({count}, 0, 1),
                                       side.parameters({count}, 0, 1)};
  UpdateStep step;
  step.device = side.device();
  step.rule = rule;
  step.parameter = parameter.data<float>();
  step.state[0] = state[0].data<float>();
  step.state[1] = state[1].data<float>();
  step.count = count;
  step.gradient_scale = 0.25f;
  step.weight_decay = 0.01f;
  const bool has_adam_constants = rule == UpdateRule::adam || rule == UpdateRule::adamw;
  const float factors[] = {0.05f, 0.1f, has_adam_constants ? 0.01f : 1e-6f, 1e-8f, 0.002f};
  const Tensor on_device = Tensor::from(std::span<const float>(factors), {5}).to(side.device());
  if (has_device_factors) {
    step.device_factors = on_device.data<float>();
    step.rate = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(step.constant, 4, step.rate);
  } else {
    step.rate = factors[0];
    std::copy_n(factors + 1, 4, step.constant);
  }
  const Tensor rounded = Tensor::zeros({count}, rounded_type, side.device());
  if (rounded_type != DType::float32) {
    step.rounded = rounded.raw();
    step.rounded_type = rounded_type;
  }
  for (int i = 0; i < 3; ++i) {
    const Tensor gradient = side.parameters({count});
    step.gradient = gradient.data<float>();
    side.backend().update(step);
  }
  Results results = {{"parameter", parameter}, {"state 1", state[0]}, {"state 2", state[1]}};
  if (step.rounded != nullptr)
    results.push_back({"rounded less parameter", apart(rounded, parameter)});
  return results;
}

// What hooks do with a gradient by its norm; the second of two is below the threshold.
Results scaled_by_norms(Side& side, std::int64_t count) {
  const Tensor w = side.parameters({count}), small = side.parameters({count}, 0, 1e-6f);
  const Tensor of_w = side.parameters({count}), of_small = side.parameters({count});
  const LarsRule rule{.gradient_scale = 0.25, .threshold = 1e-2, .decay = 0.1, .eps = 1e-9};
  side.backend().lars(of_w, w, rule);
  side.backend().lars(of_small, small, rule);
  const Tensor clipped = side.parameters({count}), kept = side.parameters({count});
  side.backend().clip(clipped, 0.25, 1e-3);
  side.backend().clip(kept, 0.25, 1e6);
  return {{"lars", of_w}, {"lars below", of_small}, {"clipped", clipped}, {"not clipped", kept}};
}

}  // namespace

void add_optimizer_problems(Problems& problems) {
  for (const std::int64_t count : {1, 4099, 70003})
    problems.push_back({fmt::format("update/hooks, {} values", count),
                        [count](Side& side) { return scaled_by_norms(side, count); }});
  const std::array<std::pair<const char*, UpdateRule>, 8> rules = {
      {{"sgd", UpdateRule::sgd},
       {"momentum_sgd", UpdateRule::momentum_sgd},
       {"nesterov", UpdateRule::nesterov},
       {"adam", UpdateRule::adam},
       {"adamw", UpdateRule::adamw},
       {"rmsprop", UpdateRule::rmsprop},
       {"adagrad", UpdateRule::adagrad},
       {"adadelta", UpdateRule::adadelta}}};
  for (const auto& [name, rule] : rules)
    for (const std::int64_t count : {1, 4099, 70003}) {
      for (const DType rounded : {DType::float32, DType::float16, DType::bfloat16})
        problems.push_back(
            {fmt::format("update/{}, {} values, kept as {}", name, count, name_of(rounded)),
             [rule = rule, count, rounded](Side& side) {
               return update(side, rule, count, rounded, false);
             }});
      problems.push_back({fmt::format("update/{}, {} values, factors on the device", name, count),
                          [rule = rule, count](Side& side) {
                            return update(side, rule, count, DType::float32, true);
                          }});
    }
}

}  // namespace tasuki::testing

// Operations for steps without waiting for the device: loss scaling and posted scalars.
#include <array>
#include <limits>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

Tensor state_of(Side& side, float scale, float good_steps) {
  const std::array<float, 3> numbers = {scale, good_steps, 0};
  return Tensor::from(std::span<const float>(numbers), {3}).to(side.device());
}

Results unscaled(Side& side, std::int64_t count) {
  const Tensor state = state_of(side, 48, 3), x = side.parameters({count});
  side.backend().unscale(x, state);
  return {{"x", x}, {"state", state}};
}

// One number that is not finite, or becomes so, wherever it is; and that it stays noted when more
// gradients follow.
Results not_finite(Side& side, std::int64_t count, std::int64_t place, float value) {
  const Tensor state = state_of(side, 0.5f, 3), x = side.parameters({count});
  x.slice(place, place + 1).fill(value);
  side.backend().unscale(x, state);
  const Tensor after_one = state.clone();
  side.backend().unscale(side.parameters({count}), state);
  return {{"state", after_one}, {"state after finite ones", state}};
}

// One number that is not finite, wherever it is, and none; what was found before stays.
Results found_in(Side& side, std::int64_t count, std::int64_t place, float value) {
  const Tensor found = Tensor::zeros({1}, DType::float32, side.device());
  const Tensor x = side.parameters({count});
  side.backend().find_non_finite(x, found);
  const Tensor without = found.clone();
  x.slice(place, place + 1).fill(value);
  side.backend().find_non_finite(x, found);
  const Tensor with = found.clone();
  side.backend().find_non_finite(side.parameters({count}), found);
  return {{"without", without}, {"with", with}, {"after it", found}};
}

// The scale after each of a row of steps, some of which overflow.
Results adjusted(Side& side) {
  const LossScaleRule rule{.growth = 4, .backoff = 0.25f, .interval = 3};
  const Tensor state = state_of(side, 1024, 1);
  Results results;
  for (const bool overflows : {false, false, true, false, false, false, true, true, false}) {
    if (overflows) state.slice(2, 3).fill(1);
    side.backend().adjust_loss_scale(state, rule);
    results.push_back({fmt::format("state {}", results.size()), state.clone()});
  }
  return results;
}

// Steps as the optimizer makes them, on values that no wide load can read: those whose gradients
// overflow change nothing.
Results updates(Side& side, std::int64_t count) {
  const auto unaligned = [&] { return side.parameters({count + 1}).slice(1, count + 1); };
  const Tensor parameter = unaligned(), speed = unaligned();
  const Tensor rounded = parameter.to(DType::bfloat16), state = state_of(side, 1, 0);
  UpdatePass pass;
  pass.device = side.device();
  pass.kernel = UpdateKernel::momentum_sgd;
  pass.parameter = parameter.data<float>();
  pass.state[0] = speed.data<float>();
  pass.count = count;
  pass.factors = {1, 0, {0.05f, 0.9f}};
  pass.skip = state.data<float>() + 2;
  pass.rounded = rounded.raw();
  Results results;
  for (const bool overflows : {false, true, false, true}) {
    const Tensor gradient = side.parameters({count});
    if (overflows) gradient.slice(count - 1, count).fill(std::numeric_limits<double>::infinity());
    pass.gradient = gradient.data<float>();
    side.backend().unscale(gradient, state);
    side.backend().update(pass);
    side.backend().adjust_loss_scale(state, {});
    results.push_back({"parameter", parameter.clone()});
    results.push_back({"speed", speed.clone()});
    results.push_back({"rounded less parameter", less_rounded(rounded, parameter)});
  }
  results.push_back({"state", state});
  return results;
}

// Scalars of every type, into more rows than the table has, of which the last are left.
Results posted(Side& side, std::int64_t first_row, std::int64_t count) {
  const Shape shape{4, count + 2};
  const auto bytes = static_cast<std::size_t>(shape.count()) * sizeof(double);
  const Tensor table(side.backend().allocate_mailbox(bytes, side.device()), 0, shape,
                     DType::float64);
  table.fill(-1);
  for (std::int64_t row = first_row; row < first_row + 6; ++row) {
    std::vector<Tensor> scalars;
    for (std::size_t i = 0; std::ssize(scalars) < count; ++i) {
      const DType type = every_type[i % every_type.size()];
      scalars.push_back(side.parameters({}, 0, 250).to(Device::cpu()).to(type).to(side.device()));
    }
    side.backend().post(
        table, Tensor::from(std::span<const std::int64_t>(&row, 1), Shape{}).to(side.device()),
        scalars);
  }
  side.backend().synchronize(side.device());
  return {{"table", table}};
}

}  // namespace

void add_step_problems(Problems& problems) {
  for (const std::int64_t count : {1, 4099, 70003}) {
    problems.push_back({fmt::format("loss scale/unscale {}", count),
                        [=](Side& side) { return unscaled(side, count); }});
    for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1})
      for (const float value :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN(), 3e38f})
        problems.push_back({fmt::format("loss scale/{} at {} of {}", value, place, count),
                            [=](Side& side) { return not_finite(side, count, place, value); }});
    for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1})
      for (const float value :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max(), 1e-40f})
        problems.push_back({fmt::format("finite guard/{} at {} of {}", value, place, count),
                            [=](Side& side) { return found_in(side, count, place, value); }});
    problems.push_back({fmt::format("loss scale/updates of {}", count),
                        [=](Side& side) { return updates(side, count); }});
  }
  problems.push_back({"loss scale/adjust", adjusted});
  for (const std::int64_t row : {std::int64_t{0}, (std::int64_t{1} << 33) + 1})
    for (const std::int64_t scalars : {0, 7, 16, 17, 50})
      problems.push_back({fmt::format("post/{} from row {}", scalars, row),
                          [=](Side& side) { return posted(side, row, scalars); }});
}

}  // namespace tasuki::testing

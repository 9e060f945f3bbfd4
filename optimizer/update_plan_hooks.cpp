// How an UpdatePlan applies hooks. Functions return the scale that remains to be applied.
#include <algorithm>
#include <cmath>

#include "optimizer/kernel_hook.hpp"
#include "optimizer/update_plan.hpp"

namespace tasuki {
namespace {

// Of the gradients [begin, end) with the weights.
UpdatePass combination(const ParameterArena& arena, std::int64_t begin, std::int64_t end) {
  UpdatePass pass;
  pass.device = arena.gradients().device();
  pass.kernel = UpdateKernel::combine;
  pass.parameter = arena.gradients().data<float>() + begin;
  pass.gradient = arena.shared_values().data<float>() + begin;
  pass.count = end - begin;
  return pass;
}

}  // namespace

void UpdatePlan::write(const Update& update, std::size_t stage, double scale) const {
  const Factors factors = factors_on(update, stage, scale, Place::anywhere);
  const Range own = update.owners.own();
  UpdatePass pass = combination(update.arena, own.begin, own.end);
  pass.factors = factors.of_all;
  pass.table = factors.table;
  if (const FactorRow* const rows = rows_on_device())
    pass.rows = rows + own.begin / elements_per_row_number;
  backend(pass.device).update(pass);
}

void UpdatePlan::apply_array_hook(const Update& update, ArrayHook& hook) const {
  if (update.owners.are_several())
    fail_everywhere(ErrorKind::usage,
                    "hook {} works on all gradients, of which each rank has only a part where "
                    "ranks share the optimizer's states: train without --shard "
                    "(Optimizer::shard), or write it as a FactorHook or a NormHook",
                    hook.name());
  const ParameterArena& arena = update.arena;
  const std::int64_t elements = arena.update_count();
  hook.apply({arena, arena.values().slice(0, elements), arena.gradients().slice(0, elements)});
}

double UpdatePlan::apply_kernel_hook(const Update& update, const Stage& stage, double scale) const {
  LateScale late{scale};
  const Device device = update.arena.values().device();
  Tensor memory;
  if (update.is_late && stage.takes_mean && !stage.writes)
    memory = late_mean_.on_if_carried(device, 1);
  if (memory) late.on_device = memory.data<double>();
  return static_cast<const KernelHook&>(*stage.then)
      .apply({update.arena, update.owners, infos_, late});
}

double UpdatePlan::apply_norm_hook(const Update& update, const NormHook& hook, double scale) const {
  refuse_recording(fmt::format("hook {} reads norms on the host", hook.name()));
  const Tensor found = norms(update, {}).to(Device::cpu());
  const std::span<const double> numbers = found.span<double>();
  std::vector<ParameterNorms> of_parameters;
  double squares = 0;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const double g = numbers[2 * i + 1] * scale;
    of_parameters.push_back({infos_[i], numbers[2 * i], g});
    squares += g * g;
  }
  std::vector<GradientFactors> factors(infos_.size());
  hook.adjust(factors, of_parameters, std::sqrt(squares), t_ + 1);

  const bool is_one_scale = std::ranges::all_of(factors, [&](const GradientFactors& each) {
    return each.scale == factors[0].scale && each.decay == 0;
  });
  if (is_one_scale) return scale * factors[0].scale;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const ParameterArena::Entry& entry = update.arena.entries()[i];
    const Range own = update.owners.own();
    const std::int64_t begin = std::max(own.begin, entry.offset);
    const std::int64_t end = std::min(own.end, entry.offset + entry.count);
    if (begin >= end) continue;
    UpdatePass pass = combination(update.arena, begin, end);
    pass.factors.scale = static_cast<float>(scale * factors[i].scale);
    pass.factors.decay = static_cast<float>(factors[i].decay);
    backend(pass.device).update(pass);
  }
  return 1;
}

}  // namespace tasuki

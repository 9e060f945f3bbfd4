#include "optimizer/update_plan.hpp"

#include <algorithm>

namespace tasuki {
namespace {

constexpr std::int64_t floats_of_row = sizeof(UpdateFactors) / sizeof(float);

std::span<UpdateFactors> as_table(std::span<float> numbers) {
  return {reinterpret_cast<UpdateFactors*>(numbers.data()),
          numbers.size() / static_cast<std::size_t>(floats_of_row)};
}

}  // namespace

UpdatePlan::UpdatePlan(std::shared_ptr<const UpdateRule> rule, const Hyperparameters& values,
                       const std::int64_t& t)
    : rule_(std::move(rule)),
      kernel_rule_(rule_->as_kernel_rule()),
      values_(values),
      t_(t),
      late_table_([this](std::span<float> out) {
        const double examples = expected_ * examples_for_each_;
        drawn_ = {StepScope::number(), examples};
        std::span<UpdateFactors> left = as_table(out);
        // The table still has the size of an earlier step with other hooks or groups; nobody reads
        // it.
        if (std::ssize(left) != tables() * std::ssize(rows_)) {
          std::ranges::fill(out, 0.0F);
          return;
        }
        for (const Stage& stage : stages_) {
          if (!stage.has_table()) continue;
          fill_table(stage, stage.takes_mean ? 1 / examples : 1, left.first(rows_.size()));
          left = left.subspan(rows_.size());
        }
      }),
      late_mean_([this](std::span<double> out) {
        const double examples = expected_ * examples_for_each_;
        drawn_ = {StepScope::number(), examples};
        out[0] = 1 / examples;
      }) {
  make_stages();
}

void UpdatePlan::run(const ParameterArena& arena, const SliceOwners& owners,
                     std::span<const Tensor> states, const float* skip, std::int64_t examples,
                     const SpreadUpdate& spread) {
  if (!unmet_.empty()) fail_everywhere(ErrorKind::usage, "{}", unmet_);
  const auto count = static_cast<double>(examples);
  const Device device = arena.values().device();
  // On GPUs every rank has all sums of gradients.
  std::optional<SliceOwners> one_owner;
  if (!device.is_cpu() && owners.are_several()) one_owner.emplace(arena.update_count());
  const Update update{arena, one_owner ? *one_owner : owners,  owners.own(), states, skip, spread,
                      count, !device.is_cpu() && follow(count)};
  double scale = 1 / count;  // that remains to be applied
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (stage.then == nullptr) return apply_rule(update, i, scale);
    // A hook before this one may have left a scale to the update; an ArrayHook sees it applied.
    const bool is_of_arrays = stage.then->kind_ == OptimizerHook::Kind::arrays;
    if (stage.writes || (is_of_arrays && scale != 1)) {
      write(update, i, scale);
      scale = 1;
    }
    // Factors are in stage.factors.
    if (const NormHook* hook = norm_hook_of(*stage.then, device))
      scale = apply_norm_hook(update, *hook, scale);
    else if (stage.then->kind_ == OptimizerHook::Kind::kernel)
      scale = apply_kernel_hook(update, stage, scale);
    else if (is_of_arrays)
      apply_array_hook(update, static_cast<ArrayHook&>(*stage.then));
  }
}

bool UpdatePlan::follow(double examples) {
  if (has_norm_hooks_) return false;
  if (expected_ * examples_for_each_ != examples) examples_for_each_ = examples / expected_;
  const bool is_drawn = StepScope::is_open() && drawn_.step == StepScope::number();
  if (expected_ * examples_for_each_ == examples && (!is_drawn || drawn_.examples == examples))
    return true;
  refuse_recording("updates divide by numbers of examples that are unlike those of the batches");
  return false;
}

UpdatePlan::Factors UpdatePlan::factors_on(const Update& update, std::size_t stage, double scale,
                                           Place place) const {
  const Device device = update.arena.values().device();
  const auto rows = std::ssize(rows_);
  Factors factors;
  if (update.is_late)
    factors.memory = late_table_.on_if_carried(device, tables() * rows * floats_of_row);
  if (factors.memory) {
    const std::int64_t before =
        std::count_if(stages_.begin(), stages_.begin() + static_cast<std::ptrdiff_t>(stage),
                      [](const Stage& each) { return each.has_table(); });
    factors.table =
        as_table({factors.memory.data<float>(), static_cast<std::size_t>(factors.memory.count())})
            .data() +
        before * rows;
    return factors;
  }
  if (rows == 1) factors.of_all = factors_of(stages_[stage], rows_[0], scale);
  if (rows == 1 && place == Place::anywhere) return factors;
  const Tensor made = Tensor::empty({rows * floats_of_row});
  fill_table(stages_[stage], scale, as_table(made.span<float>()));
  factors.memory = made.to(device);
  factors.table =
      as_table({factors.memory.data<float>(), static_cast<std::size_t>(made.count())}).data();
  return factors;
}

const FactorRow* UpdatePlan::rows_on_device() const {
  return row_numbers_ ? reinterpret_cast<const FactorRow*>(row_numbers_.data<std::uint8_t>())
                      : nullptr;
}

}  // namespace tasuki

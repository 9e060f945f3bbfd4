#include "optimizer/update_plan.hpp"

#include <algorithm>

#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t floats_of_row = sizeof(UpdateFactors) / sizeof(float);

std::span<UpdateFactors> as_table(std::span<float> numbers) {
  return {reinterpret_cast<UpdateFactors*>(numbers.data()),
          numbers.size() / static_cast<std::size_t>(floats_of_row)};
}

// Elements [begin, end) of an update.
UpdatePass part_of(const UpdatePass& whole, std::int64_t begin, std::int64_t end) {
  UpdatePass part = whole;
  part.parameter += begin;
  part.gradient += begin;
  for (float*& state : part.state)
    if (state != nullptr) state += begin;
  if (part.rows != nullptr) part.rows += begin / elements_per_row_number;
  if (part.parameter_of != nullptr) part.parameter_of += begin / elements_per_row_number;
  if (part.rounded != nullptr)
    part.rounded = static_cast<std::byte*>(part.rounded) +
                   static_cast<std::size_t>(begin) * size_of(part.rounded_type);
  part.count = end - begin;
  return part;
}

std::vector<float*> pointers_of(std::span<const Tensor> states) {
  std::vector<float*> pointers;
  pointers.reserve(states.size());
  for (const Tensor& state : states) pointers.push_back(state.data<float>());
  return pointers;
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
    if (stage.then == nullptr) {
      applied_scale_ = scale;
      return apply_rule(update, i, scale);
    }
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

void UpdatePlan::apply_rule(const Update& update, std::size_t stage, double scale) const {
  const bool is_on_cpu = update.arena.values().device().is_cpu();
  const bool needs_memory = kernel_rule_ == nullptr && !is_on_cpu;
  const Factors factors =
      factors_on(update, stage, scale, needs_memory ? Place::on_device : Place::anywhere);
  if (kernel_rule_ != nullptr) return apply_kernel(update, factors);
  if (!is_on_cpu)
    apply_on_gpu(update, factors);
  else if (update.skip == nullptr || *update.skip == 0)
    apply_on_cpu(update, factors);
  update.arena.round_values();
}

void UpdatePlan::apply_kernel(const Update& update, const Factors& factors) const {
  UpdatePass arena{.device = update.arena.values().device(),
                   .kernel = kernel_rule_->kernel(),
                   .parameter = update.arena.shared_values().data<float>(),
                   .gradient = update.arena.gradients().data<float>(),
                   .count = update.arena.update_count(),
                   .factors = factors.of_all,
                   .table = factors.table,
                   .rows = rows_on_device(),
                   .skip = update.skip};
  if (const Tensor& rounded = update.arena.shared_rounded()) {
    arena.rounded = rounded.raw();
    arena.rounded_type = rounded.dtype();
  }
  const bool is_lamb = arena.kernel == UpdateKernel::lamb;
  if (is_lamb) arena.parameter_of = parameter_of_.data<std::int32_t>();
  UpdatePass all = part_of(arena, update.own.begin, update.own.end);
  std::ranges::copy(pointers_of(update.states), all.state);
  Tensor ratios;
  if (is_lamb) {
    ratios = trust_ratios(update, all);
    all.ratios = ratios.data<float>();
  }
  const ApplyRange apply = [&all](std::int64_t begin, std::int64_t end) {
    backend(all.device).update(part_of(all, begin, end));
  };
  update.for_all(all.count, apply);
}

void UpdatePlan::apply_on_gpu(const Update& update, const Factors& factors) const {
  const Tensor& values = update.arena.shared_values();
  const Tensor found = rule_->needs_norms() ? norms(update, factors) : Tensor();
  const std::vector<float*> states = pointers_of(update.states);
  const RuleArena all{
      .device = values.device(),
      .stream = backend(values.device()).queue(values.device()),
      .parameters = values.data<float>(),
      .gradients = update.arena.gradients().data<float>(),
      .states = states,
      .count = update.arena.update_count(),
      .factors = factors.table,
      .rows = rows_on_device(),
      .norms = found ? found.data<double>() : nullptr,
      .parameter_of = parameter_of_ ? parameter_of_.data<std::int32_t>() : nullptr,
      .skip = update.skip,
  };
  const ApplyRange apply = [&](std::int64_t begin, std::int64_t end) {
    TASUKI_CHECK(begin == 0 && end == all.count, "a rule of a GPU updates the whole arena at once");
    rule_->apply_on_gpu(all);
  };
  update.for_all(all.count, apply);
}

void UpdatePlan::apply_on_cpu(const Update& update, const Factors& factors) const {
  const std::vector<ParameterArena::Entry>& entries = update.arena.entries();
  float* const parameters = update.arena.shared_values().data<float>();
  const float* const gradients = update.arena.gradients().data<float>();
  const std::vector<float*> states = pointers_of(update.states);
  const auto factor_count = rule_->factors(values_, t_ + 1).size();
  const Range own = update.owners.own();
  Tensor found;
  if (rule_->needs_norms()) found = norms(update, factors);

  const auto apply_to = [&](std::size_t entry, std::int64_t begin, std::int64_t end) {
    const UpdateFactors& k =
        factors.table != nullptr ? factors.table[row_of_[entry]] : factors.of_all;
    std::vector<float*> from = states;
    for (float*& state : from) state += begin - own.begin;
    const double* const norm = found ? found.data<double>() + 2 * entry : nullptr;
    rule_->apply({.info = infos_[entry],
                  .parameter = parameters + begin,
                  .gradient = gradients + begin,
                  .states = from,
                  .count = end - begin,
                  .factors = std::span(k.of_rule).first(factor_count),
                  .w_norm = norm != nullptr ? norm[0] : 0,
                  .g_norm = norm != nullptr ? norm[1] : 0,
                  .scale = k.scale,
                  .decay = k.decay});
  };
  const auto apply_to_all = [&](std::int64_t begin, std::int64_t end) {
    auto entry = std::ranges::upper_bound(entries, begin, {}, &ParameterArena::Entry::offset);
    if (entry != entries.begin()) --entry;
    for (; entry != entries.end() && entry->offset < end; ++entry) {
      const std::int64_t first = std::max(begin, entry->offset);
      const std::int64_t last = std::min(end, entry->offset + entry->count);
      if (first < last) apply_to(static_cast<std::size_t>(entry - entries.begin()), first, last);
    }
  };
  const ApplyRange apply = [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t line = elements_per_row_number;
    parallel_for((end - begin) / line, elementwise_grain / line,
                 [&](std::int64_t first, std::int64_t last) {
                   const std::int64_t from = own.begin + begin;
                   apply_to_all(from + first * line, from + last * line);
                 });
  };
  update.for_all(own.size(), apply);
}

}  // namespace tasuki

#include "tasuki/optimizer/update_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tasuki/optimizer/kernel_hook.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t floats_of_row = sizeof(UpdateFactors) / sizeof(float);

std::span<UpdateFactors> as_table(std::span<float> numbers) {
  return {reinterpret_cast<UpdateFactors*>(numbers.data()),
          numbers.size() / static_cast<std::size_t>(floats_of_row)};
}

UpdateStep combination(const Tensor& gradients, const Tensor& values, std::int64_t count) {
  UpdateStep step;
  step.device = gradients.device();
  step.kernel = UpdateKernel::combine;
  step.parameter = gradients.data<float>();
  step.gradient = values.data<float>();
  step.count = count;
  return step;
}

}  // namespace

UpdatePlan::UpdatePlan(std::shared_ptr<const UpdateRule> rule, const Hyperparameters& values,
                       const std::int64_t& t)
    : rule_(std::move(rule)),
      kernel_rule_(dynamic_cast<const KernelRule*>(rule_.get())),
      values_(values),
      t_(t),
      late_table_([this](std::span<float> out) {
        const double examples = expected_ * examples_for_each_;
        drawn_ = {StepScope::number(), examples};
        std::span<UpdateFactors> left = as_table(out);
        // As many as in a step before that had other hooks or groups: they are not read.
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

void UpdatePlan::add_hook(std::shared_ptr<OptimizerHook> hook) {
  hooks_.push_back(std::move(hook));
}

void UpdatePlan::add_group(ParameterGroup group) {
  Hyperparameters checked = values_;
  for (const auto& [name, value] : group.values) checked.set(name, value);
  const auto check = [&](const char* setting, double value) {
    if (!(std::isfinite(value) && value >= 0))
      fail_everywhere(ErrorKind::usage, "group {}: {} = {}; expected a number >= 0", group.pattern,
                      setting, value);
  };
  check("rate_factor", group.rate_factor.value_or(1));
  check("weight_decay", group.weight_decay.value_or(0));
  if (group.rate_factor.value_or(1) != 1 && rule_->rate_name().empty())
    fail_everywhere(ErrorKind::usage, "group {}: {} has no learning rate to multiply",
                    group.pattern, rule_->name());
  groups_.push_back(std::move(group));
  has_matched_.push_back(false);
}

void UpdatePlan::check(Device device) const {
  if (!device.is_cpu() && !rule_->has_gpu_kernel())
    fail_everywhere(ErrorKind::unavailable,
                    "optimizer {} has no kernel for {}: train on CPUs, or give its rule "
                    "apply_on_gpu()",
                    rule_->name(), device.text());
}

// --- what is known before a step ---

void UpdatePlan::arrange(const ParameterArena& arena) {
  make_stages();
  make_rows(arena);
  unmet_ = find_unmet(arena);
}

std::string UpdatePlan::find_unmet(const ParameterArena& arena) {
  std::vector<std::string> paths;
  for (const ParameterArena::Entry& entry : arena.entries()) paths.push_back(entry.path);
  for (const ParameterArena::Entry& entry : arena.frozen()) paths.push_back(entry.path);
  for (const Module::NamedParameter& named : arena.unshaped()) paths.push_back(named.path);
  const bool decays =
      !rule_->decay_name().empty() ||
      std::ranges::any_of(hooks_, [](const auto& hook) { return hook->decays_weights(); });
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    if (!decays && group.weight_decay.value_or(0) > 0)
      return fmt::format(
          "group {} has a weight decay, which {} without a hook that decays weights does not do: "
          "add_hook(weight_decay(0)) where no other parameters decay",
          group.pattern, rule_->name());
    // Layers may be removed later.
    has_matched_[i] = has_matched_[i] || std::ranges::any_of(paths, [&](const std::string& path) {
                        return matches(group.pattern, path);
                      });
    if (!has_matched_[i])
      return fmt::format("group {} matches no parameter of the model, which has, for example, {}",
                         group.pattern, paths.front());
  }
  return "";
}

void UpdatePlan::make_stages() {
  stages_.assign(1, {});
  has_norm_hooks_ = false;
  for (const auto& hook : hooks_) {
    if (hook->kind_ == OptimizerHook::Kind::factors) {
      stages_.back().factors.push_back(static_cast<const FactorHook*>(hook.get()));
      continue;
    }
    Stage& stage = stages_.back();
    stage.then = hook.get();
    const bool is_of_arrays = hook->kind_ == OptimizerHook::Kind::arrays;
    stage.writes = !stage.factors.empty() || (is_of_arrays && stage.takes_mean);
    has_norm_hooks_ = has_norm_hooks_ || hook->kind_ == OptimizerHook::Kind::norms;
    Stage next;
    next.takes_mean = stage.takes_mean && !stage.writes &&
                      !(hook->kind_ == OptimizerHook::Kind::kernel &&
                        static_cast<const KernelHook&>(*hook).applies_scale());
    stages_.push_back(next);
  }
}

void UpdatePlan::make_rows(const ParameterArena& arena) {
  const bool is_each_its_own = std::ranges::any_of(stages_, [](const Stage& stage) {
    return std::ranges::any_of(stage.factors,
                               [](const FactorHook* hook) { return hook->differs_by_parameter(); });
  });
  infos_.clear();
  row_of_.clear();
  rows_.clear();
  const std::int64_t lines = arena.update_count() / elements_per_row_number;
  std::vector<FactorRow> numbers(static_cast<std::size_t>(lines));
  std::vector<std::int32_t> parameters(static_cast<std::size_t>(lines));
  std::vector<std::int64_t> segments;
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const Shape& shape = entry.parameter->shape();
    std::vector<std::size_t> groups = find_groups(entry.path, shape);
    infos_.push_back({entry.path, shape, {}});
    for (const std::size_t group : groups)
      if (groups_[group].weight_decay) infos_.back().weight_decay = groups_[group].weight_decay;
    auto row = is_each_its_own ? rows_.end() : std::ranges::find(rows_, groups, &Row::groups);
    const auto number = static_cast<std::size_t>(row - rows_.begin());
    if (row == rows_.end()) rows_.push_back({infos_.back(), std::move(groups)});
    TASUKI_CHECK(number <= std::numeric_limits<FactorRow>::max(),
                 "hooks tell apart more than {} parameters", number);
    const std::int64_t end = (entry.offset + entry.count - 1) / elements_per_row_number + 1;
    for (std::int64_t line = entry.offset / elements_per_row_number; line < end; ++line) {
      numbers[static_cast<std::size_t>(line)] = static_cast<FactorRow>(number);
      parameters[static_cast<std::size_t>(line)] = static_cast<std::int32_t>(row_of_.size());
    }
    row_of_.push_back(number);
    segments.insert(segments.end(), {entry.offset, entry.count});
  }

  const Device device = arena.values().device();
  row_numbers_ = segments_ = parameter_of_ = {};
  if (rows_.size() > 1) {
    const auto bytes = std::as_bytes(std::span(numbers));
    row_numbers_ =
        Tensor::from(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
                     {std::ssize(bytes)})
            .to(device);
  }
  if (rule_->needs_norms() || has_norm_hooks_)
    segments_ =
        Tensor::from(std::span<const std::int64_t>(segments), {std::ssize(segments)}).to(device);
  if (rule_->needs_norms() && !device.is_cpu())
    parameter_of_ = Tensor::from(std::span<const std::int32_t>(parameters), {lines}).to(device);
}

std::vector<std::size_t> UpdatePlan::find_groups(const std::string& path,
                                                 const Shape& shape) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].has(path, shape)) found.push_back(i);
  return found;
}

std::int64_t UpdatePlan::tables() const {
  return std::ranges::count_if(stages_, &Stage::has_table);
}

UpdateFactors UpdatePlan::factors_of(const Stage& stage, const Row& row, double scale) const {
  const std::int64_t t = t_ + 1;
  GradientFactors gradient{scale, 0};
  for (const FactorHook* hook : stage.factors) hook->adjust(gradient, row.info, t);
  UpdateFactors factors;
  factors.scale = static_cast<float>(gradient.scale);
  factors.decay = static_cast<float>(gradient.decay);
  if (stage.then != nullptr) return factors;
  const std::vector<double> of_rule =
      row.groups.empty() ? rule_->factors(values_, t) : rule_->factors(values_of(row), t);
  TASUKI_CHECK(of_rule.size() <= std::size(factors.of_rule),
               "{} has {} factors of an update; there is room for {}", rule_->name(),
               of_rule.size(), std::size(factors.of_rule));
  std::ranges::transform(of_rule, factors.of_rule,
                         [](double factor) { return static_cast<float>(factor); });
  return factors;
}

Hyperparameters UpdatePlan::values_of(const Row& row) const {
  Hyperparameters values = values_;
  double rate_factor = 1;
  for (const std::size_t i : row.groups) {
    for (const auto& [name, value] : groups_[i].values) values.set(name, value);
    rate_factor = groups_[i].rate_factor.value_or(rate_factor);
  }
  if (const std::string rate = rule_->rate_name(); !rate.empty())
    values.set(rate, values[rate] * rate_factor);
  if (const std::string decay = rule_->decay_name(); !decay.empty() && row.info.weight_decay)
    values.set(decay, *row.info.weight_decay);
  return values;
}

void UpdatePlan::fill_table(const Stage& stage, double scale,
                            std::span<UpdateFactors> table) const {
  std::ranges::transform(rows_, table.begin(),
                         [&](const Row& row) { return factors_of(stage, row, scale); });
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

// --- one update ---

void UpdatePlan::run(const ParameterArena& arena, std::span<const Tensor> states, const float* skip,
                     std::int64_t examples, const Spread& spread) {
  if (!unmet_.empty()) fail_everywhere(ErrorKind::usage, "{}", unmet_);
  const auto count = static_cast<double>(examples);
  const Update update{arena,  states, skip,
                      spread, count,  !arena.values().device().is_cpu() && follow(count)};
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
    switch (stage.then->kind_) {
      case OptimizerHook::Kind::kernel:
        scale = apply_kernel_hook(update, stage, scale);
        break;
      case OptimizerHook::Kind::norms:
        scale = apply_norm_hook(update, static_cast<const NormHook&>(*stage.then), scale);
        break;
      case OptimizerHook::Kind::arrays: {
        const std::int64_t elements = arena.update_count();
        static_cast<ArrayHook*>(stage.then)
            ->apply(
                {arena, arena.values().slice(0, elements), arena.gradients().slice(0, elements)});
        break;
      }
      case OptimizerHook::Kind::factors:
        break;  // in stage.factors
    }
  }
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

void UpdatePlan::write(const Update& update, std::size_t stage, double scale) const {
  const Factors factors = factors_on(update, stage, scale, Place::anywhere);
  UpdateStep step =
      combination(update.arena.gradients(), update.arena.values(), update.arena.update_count());
  step.factors = factors.of_all;
  step.table = factors.table;
  step.rows = rows_on_device();
  backend(step.device).update(step);
}

double UpdatePlan::apply_kernel_hook(const Update& update, const Stage& stage, double scale) const {
  LateScale late{scale};
  const Device device = update.arena.values().device();
  Tensor memory;
  if (update.is_late && stage.takes_mean && !stage.writes)
    memory = late_mean_.on_if_carried(device, 1);
  if (memory) late.on_device = memory.data<double>();
  return static_cast<const KernelHook&>(*stage.then).apply({update.arena, infos_, late});
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
    UpdateStep step = combination(ParameterArena::part(update.arena.gradients(), entry),
                                  ParameterArena::part(update.arena.values(), entry), entry.count);
    step.factors.scale = static_cast<float>(scale * factors[i].scale);
    step.factors.decay = static_cast<float>(factors[i].decay);
    backend(step.device).update(step);
  }
  return 1;
}

}  // namespace tasuki

// What an UpdatePlan prepares before a step: stages of hooks, and the rows of its tables of
// factors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "optimizer/kernel_hook.hpp"
#include "optimizer/update_plan.hpp"

namespace tasuki {

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

// On CPUs LAMB's owners exchange the sums of their blocks.
bool UpdatePlan::can_update_slices(Device device) const {
  return device.is_cpu() ||
         (kernel_rule_ != nullptr && kernel_rule_->kernel() != UpdateKernel::lamb);
}

void UpdatePlan::check(Device device) const {
  if (!device.is_cpu() && !rule_->has_gpu_kernel())
    fail_everywhere(ErrorKind::unavailable,
                    "optimizer {} has no kernel for {}: train on CPUs, or give its rule "
                    "apply_on_gpu()",
                    rule_->name(), device.text());
}

const OptimizerHook* UpdatePlan::hook_of_arrays() const {
  const auto found = std::ranges::find(hooks_, OptimizerHook::Kind::arrays,
                                       [](const auto& hook) { return hook->kind_; });
  return found == hooks_.end() ? nullptr : found->get();
}

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
  if (rule_->needs_norms() && (kernel_rule_ != nullptr || !device.is_cpu()))
    parameter_of_ = Tensor::from(std::span<const std::int32_t>(parameters), {lines}).to(device);
  const bool hooks_need_norms = std::ranges::any_of(stages_, [&](const Stage& stage) {
    return stage.then != nullptr && norm_hook_of(*stage.then, device) != nullptr;
  });
  if (device.is_cpu() && (rule_->needs_norms() || hooks_need_norms)) make_norm_pieces(arena);
}

void UpdatePlan::make_norm_pieces(const ParameterArena& arena) {
  norm_pieces_.clear();
  piece_begins_.clear();
  parameter_of_piece_.clear();
  for (std::size_t i = 0; i < arena.entries().size(); ++i) {
    const ParameterArena::Entry& entry = arena.entries()[i];
    const std::int64_t last = entry.offset + entry.count;
    for (std::int64_t begin = entry.offset, end = 0; begin < last; begin = end) {
      end = std::min((begin / norm_block + 1) * norm_block, last);
      norm_pieces_.insert(norm_pieces_.end(), {begin, end - begin});
      piece_begins_.push_back(begin);
      parameter_of_piece_.push_back(i);
    }
  }
}

const NormHook* UpdatePlan::norm_hook_of(const OptimizerHook& hook, Device device) {
  if (hook.kind_ == OptimizerHook::Kind::norms) return &static_cast<const NormHook&>(hook);
  if (hook.kind_ == OptimizerHook::Kind::kernel && device.is_cpu())
    return static_cast<const KernelHook&>(hook).on_cpu();
  return nullptr;
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

}  // namespace tasuki

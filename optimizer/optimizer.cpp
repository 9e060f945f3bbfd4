#include "optimizer/optimizer.hpp"

#include <algorithm>
#include <utility>

#include "core/printable.hpp"
#include "optimizer/divided_weights.hpp"
#include "optimizer/update_plan.hpp"

namespace tasuki {

Optimizer::Optimizer(std::shared_ptr<const UpdateRule> rule)
    : rule_(std::move(rule)),
      values_(rule_->name(), rule_->hyperparameters()),
      plan_(std::make_unique<UpdatePlan>(rule_, values_, t_)),
      counted_([this] {
        if (guard_.settle()) return;
        ++t_;
        learning_rate_ = rule_->learning_rate(values_, t_);
      }) {}

Optimizer::~Optimizer() {
  if (divided_) divided_->close();
}

void Optimizer::set_t(std::int64_t t) {
  TASUKI_CHECK(t >= 0, "the number of updates done cannot be {}", t);
  t_ = t;
}

void Optimizer::add_hook(std::shared_ptr<OptimizerHook> hook) {
  plan_->add_hook(std::move(hook));
  plan_changed();
}

void Optimizer::add_group(Group group) {
  plan_->add_group(std::move(group));
  plan_changed();
}

const std::vector<std::shared_ptr<OptimizerHook>>& Optimizer::hooks() const {
  return plan_->hooks();
}

const std::vector<Optimizer::Group>& Optimizer::groups() const {
  return plan_->groups();
}

double Optimizer::gradient_scale() const {
  return plan_->applied_scale();
}

void Optimizer::plan_changed() {
  if (trained_.arena) plan_->arrange(*trained_.arena);
  trained_.revision.advance();
}

void Optimizer::freeze(const std::string& pattern) {
  trained_.check_pattern(pattern);
  frozen_.freeze(pattern);
}

void Optimizer::unfreeze(const std::string& pattern) {
  trained_.check_pattern(pattern);
  frozen_.unfreeze(pattern);
}

void Optimizer::freeze_only(const FrozenPaths& frozen) {
  frozen_ = frozen;
  if (!arena().freezes(frozen_)) build_arena();
  states_.clear_frozen();
}

void Optimizer::shard(Sharding what, std::vector<std::string> units) {
  states_.shard(what != Sharding::none);
  sharding_ = what;
  unit_patterns_ = std::move(units);
}

std::size_t Optimizer::weight_bytes() const {
  const ParameterArena& all = arena();
  std::int64_t elements = all.values().count();
  if (divided_) elements += divided_->elements_of_rank() - all.update_count();
  const std::size_t each = sizeof(float) + (all.rounded() ? size_of(all.rounded().dtype()) : 0);
  return static_cast<std::size_t>(elements) * each;
}

std::size_t Optimizer::gradient_bytes() const {
  if (!arena().keeps_sums_only()) return arena().gradients().bytes() * arena().gradient_arrays();
  return static_cast<std::size_t>(states_.owners().own().size()) * sizeof(float) +
         exchange_.gradient_exchange()->bytes();
}

void Optimizer::compute_in(DType type) {
  if (type == compute_type_) return;
  compute_type_ = type;
  trained_.revision.advance();
  if (!trained_.arena) return;
  if (type == DType::float32)
    trained_.arena->forget_rounded();
  else
    trained_.arena->keep_rounded(type);
}

std::unique_ptr<Optimizer> create_optimizer(const std::string& key) {
  for (const NamedRule& each : update_rules())
    if (each.key == key) return std::make_unique<Optimizer>(each.rule);
  fail_everywhere(ErrorKind::usage, "unknown optimizer \"{}\"; known ones: {}", key,
                  join(optimizer_names(), ", "));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const NamedRule& each : update_rules()) names.push_back(each.key);
  return names;
}

}  // namespace tasuki

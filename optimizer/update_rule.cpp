#include "optimizer/update_rule.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "optimizer/built_in_rules.hpp"

namespace tasuki {

Hyperparameters::Hyperparameters(std::string rule, std::vector<Hyperparameter> known)
    : rule_(std::move(rule)),
      known_(std::make_shared<const std::vector<Hyperparameter>>(std::move(known))) {
  for (const Hyperparameter& each : *known_) values_.push_back(each.initial);
}

void Hyperparameters::set(std::string_view name, double value) {
  const std::size_t i = index_of(name);
  const Hyperparameter& known = (*known_)[i];
  if (!(known.low <= value && value < known.high))
    fail_everywhere(ErrorKind::usage, "{}: {} = {} is out of range; expected {} <= {} < {}", rule_,
                    name, value, known.low, name, known.high);
  values_[i] = value;
}

bool Hyperparameters::has(std::string_view name) const {
  return std::ranges::find(*known_, name, &Hyperparameter::name) != known_->end();
}

std::vector<std::string> Hyperparameters::names() const {
  std::vector<std::string> names;
  names.reserve(known_->size());
  for (const Hyperparameter& each : *known_) names.push_back(each.name);
  return names;
}

std::size_t Hyperparameters::index_of(std::string_view name) const {
  const auto found = std::ranges::find(*known_, name, &Hyperparameter::name);
  if (found == known_->end())
    fail_everywhere(ErrorKind::usage, "{} has no hyper-parameter \"{}\"; it has {}", rule_, name,
                    join(names(), ", "));
  return static_cast<std::size_t>(found - known_->begin());
}

std::optional<double> UpdateRule::learning_rate(const Hyperparameters& h, std::int64_t) const {
  const std::string rate = rate_name();
  return rate.empty() ? std::nullopt : std::optional(h[rate]);
}

void UpdateRule::apply_on_gpu(const RuleArena& arena) const {
  fail_everywhere(ErrorKind::unavailable, "optimizer {} has no kernel for {}", name(),
                  arena.device.text());
}

namespace {

std::vector<NamedRule>& rules() {
  static std::vector<NamedRule> known = built_in_rules();
  return known;
}

}  // namespace

const std::vector<NamedRule>& update_rules() {
  return rules();
}

void register_rule(const std::string& key, std::shared_ptr<const UpdateRule> rule) {
  const std::string name = rule->name();
  for (const NamedRule& each : rules())
    TASUKI_CHECK(each.key != key && each.rule->name() != name,
                 "an optimizer {} ({}) is registered already; {} ({}) needs another key and name",
                 each.key, each.rule->name(), key, name);
  rules().push_back({key, std::move(rule)});
}

}  // namespace tasuki

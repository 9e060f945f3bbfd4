#include "training/watched_value.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "saving/serializer.hpp"
#include "training/trainer.hpp"

namespace tasuki {

Better better_of(const std::string& key) {
  return key.find("accuracy") != std::string::npos ? Better::larger : Better::smaller;
}

WatchedValue::WatchedValue(std::string key, Better better, std::unique_ptr<Trigger> check)
    : key_(std::move(key)), better_(better), check_(std::move(check)) {}

std::string WatchedValue::describe_absence(const Trainer& trainer, const Observation& there) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : there.values()) names.push_back(name);
  for (const std::string& extension : trainer.extension_names())  // evaluators that have not run
    if (trainer.may_yet_observe(extension + '/')) names.push_back(extension + "/...");
  return fmt::format("{} watches \"{}\", which was not observed up to iteration {} (there are: {})",
                     watcher_, key_, trainer.updater().iteration(), join(names, ", "));
}

// After the first iteration, when little is lost.
void WatchedValue::check_name(Trainer& trainer) {
  Communicator* const communicator = trainer.communicator();
  is_observed_ = pending_.over_ranks(communicator).values().contains(key_);
  if (is_observed_ || trainer.may_yet_observe(key_)) return;
  fail_everywhere(ErrorKind::usage, "{}",
                  describe_absence(trainer, trainer.observation().over_ranks(communicator)));
}

WatchedValue::Finding WatchedValue::look(Trainer& trainer) {
  pending_.add_value_of(trainer.observation(), key_);
  const bool is_due = check_->fires(trainer);
  if (!std::exchange(has_looked_, true) && !watcher_.empty()) check_name(trainer);
  if (!is_due) return Finding::no_check;

  Communicator* const communicator = trainer.communicator();
  const auto mean = pending_.over_ranks(communicator).mean(key_);
  pending_.clear();
  if (!mean) {
    if (!watcher_.empty() && !is_observed_ && !trainer.may_yet_observe(key_))
      trainer.fail_after_saving(
          Error(ErrorKind::usage,
                describe_absence(trainer, trainer.observation().over_ranks(communicator)),
                ErrorScope::every_rank));
    return Finding::no_value;
  }
  is_observed_ = true;
  if (!std::isfinite(*mean)) return Finding::no_value;
  const bool beats = better_ == Better::larger ? *mean > best_.mean : *mean < best_.mean;
  if (!beats && best_.is_known != 0) return Finding::not_better;
  best_ = {*mean, 1};
  return Finding::better;
}

bool WatchedValue::serialize(const Serializer& serializer) {
  std::string key = key_;
  if (!serializer.is_loading() || serializer.contains("key")) serializer("key", key);
  if (key != key_) return false;
  serialize_finite(serializer, "best", best_.mean);
  serialize_count(serializer, "has_best", best_.is_known, 1);
  pending_.serialize(serializer["pending"]);
  if (!serializer.is_loading() || serializer.contains("check"))
    check_->serialize(serializer["check"]);
  return true;
}

}  // namespace tasuki

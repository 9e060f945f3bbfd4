// WatchedValue: an observed value and its best mean so far, for early stopping and the best
// checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "training/observation.hpp"
#include "training/trigger.hpp"

namespace tasuki {

enum class Better : std::uint8_t { smaller, larger };
// Chainer's "auto": larger is better when the key has "accuracy" in it.
Better better_of(const std::string& key);

class WatchedValue {
 public:
  struct Best {
    double mean = 0;
    std::int64_t is_known = 0;
  };

  // Looks at the mean of `key` over all ranks since the last check whenever `check` fires.
  WatchedValue(std::string key, Better better, std::unique_ptr<Trigger> check);

  // Names that nothing observes are a usage error that says `watcher` wants the value: at once
  // when, after the first iteration of the process, no extension may observe the key later, and
  // after a snapshot (Trainer::fail_after_saving) at the first check when all have run. Without
  // this, such names are ignored.
  void demand(std::string watcher) { watcher_ = std::move(watcher); }

  // no_value: there was a check, and what observes the value has not run since the last one, or the
  // mean is not finite.
  enum class Finding : std::uint8_t { no_check, no_value, better, not_better };
  // Call it once after each iteration. A better value becomes the best one. Collective.
  Finding look(Trainer& trainer);

  const std::string& key() const { return key_; }
  Best best() const { return best_; }
  void set_best(Best best) { best_ = best; }
  // Whether this is the state of the same key; the state of another one is not taken.
  bool serialize(const Serializer& serializer);

 private:
  void check_name(Trainer& trainer);
  std::string describe_absence(const Trainer& trainer, const Observation& there) const;

  std::string key_;
  Better better_;
  std::unique_ptr<Trigger> check_;
  std::string watcher_;  // empty: a value that is never observed is no error
  Observation pending_;
  Best best_;
  bool has_looked_ = false;  // in this process
  bool is_observed_ = false;
};

}  // namespace tasuki

// Triggers decide when to run something. A trigger gives the same answer on every rank, because it
// may start collective work; most depend only on iteration and epoch and keep no state.
// timed_trigger.cpp has triggers that read the clock, value_trigger.cpp those that watch a value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saving/serializer.hpp"

namespace tasuki {

class Trainer;

enum class Unit { iteration, epoch };

// The length of a run: whichever of the two comes first.
struct TrainingLength {
  std::optional<double> epochs;
  std::optional<std::int64_t> iterations;
};

// Whether a run has reached that length.
bool is_reached(const TrainingLength& length, const Trainer& trainer);

class Trigger {
 public:
  virtual ~Trigger() = default;
  // Asked exactly once after each iteration, on every rank.
  virtual bool fires(Trainer& trainer) = 0;
  // How often it has fired by now, in a run from its first iteration on; nothing if that does not
  // follow from the position.
  virtual std::optional<std::int64_t> times_fired(const Trainer&) const { return std::nullopt; }
  // For a stop trigger: the length of the run as far as it is known.
  virtual TrainingLength length() const { return {}; }
  // For a stop trigger: whether the run is over before its next iteration, because it was
  // resumed where it had ended.
  virtual bool is_over(const Trainer& trainer) const { return is_reached(length(), trainer); }
  // Saves or loads the state that a resumed run needs; most triggers have none.
  virtual void serialize(const Serializer&) {}
};

// Every `period` iterations or epochs, which may be a fraction: every(0.5, Unit::epoch) fires in
// the iterations in which the epoch passes 0.5, 1, 1.5, ...
std::unique_ptr<Trigger> every(double period, Unit unit);
// Fires after the first iteration of the run, and not again after a resume.
std::unique_ptr<Trigger> once();
// Fires in the iterations in which these points are reached.
std::unique_ptr<Trigger> at(std::vector<double> points, Unit unit);
// Fires every so many seconds of rank 0's clock. For that, ranks communicate not in each iteration,
// but in iterations agreed in advance from the speed so far, so it may fire an iteration late.
std::unique_ptr<Trigger> every_seconds(double seconds);

// Fires when the mean of `key` since the last check, over all ranks, is smaller or larger than all
// earlier means; checked whenever `check` fires.
std::unique_ptr<Trigger> on_min_value(std::string key,
                                      std::unique_ptr<Trigger> check = every(1, Unit::epoch));
std::unique_ptr<Trigger> on_max_value(std::string key,
                                      std::unique_ptr<Trigger> check = every(1, Unit::epoch));

// Ends a run after `epochs`, or after `max_iterations` if that comes first.
std::unique_ptr<Trigger> stop_after(double epochs,
                                    std::optional<std::int64_t> max_iterations = std::nullopt);

// Ends a run if `monitor` has not improved for `patience` checks in a row, at the latest after
// `max_epochs` or `max_iterations`. Checks before which the value was not observed are skipped: an
// evaluator may run less often. A name that nothing observes is a usage error, after the first
// iteration if no extension may observe it later, else after a snapshot.
struct EarlyStopping {
  std::string monitor = "main/loss";
  int patience = 3;
  // Chainer's "auto": larger is better if the key contains "accuracy".
  enum class Mode { automatic, min, max } mode = Mode::automatic;
  double max_epochs = 100;
  double check_every_epochs = 1;
  std::optional<std::int64_t> max_iterations = std::nullopt;
};
std::unique_ptr<Trigger> early_stopping(const EarlyStopping& options);

}  // namespace tasuki

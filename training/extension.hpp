// Extension: work of a trainer other than updates: evaluation, reports, saving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "saving/serializer.hpp"
#include "training/trigger.hpp"

namespace tasuki {

class Observation;
class Trainer;

// Every rank has the same extensions; those that print or write do so on rank 0 only. An exception
// in an extension leaves Trainer::run.
class Extension {
 public:
  // The order within an iteration: writers add to the trainer's observation, editors change it,
  // readers use it. Then the stop trigger is checked. Extensions with negative priority run after
  // that; those that save the whole state have priority_snapshot, and those with a lower priority
  // run after the save. A run that is resumed from such a save runs the latter again first, because
  // the earlier process may have ended before they ran; so they must leave the same results each
  // time. It does so only if their trigger can compute from the position how often it has fired
  // (Trigger::times_fired).
  static constexpr int priority_writer = 300;
  static constexpr int priority_editor = 200;
  static constexpr int priority_reader = 100;
  static constexpr int priority_snapshot = -100;

  virtual ~Extension() = default;
  virtual std::string default_name() const = 0;
  virtual int priority() const { return priority_reader; }
  virtual std::unique_ptr<Trigger> default_trigger() const { return every(1, Unit::iteration); }
  // Whether this extension, attached as `name`, may add `key` to the trainer's observation in a
  // later iteration; `has_run`: it has run in this process. The answer serves to find misspelt
  // keys. By default, an extension that has run is assumed to have shown all its keys.
  virtual bool may_observe(const std::string& /*key*/, const std::string& /*name*/,
                           bool has_run) const {
    return !has_run;
  }
  // Whether run() needs the model after all steps so far. With double-buffered gradients, the
  // trainer then first finishes the exchange of the last step.
  virtual bool reads_model() const { return false; }
  // Called before the first iteration of this run (resumed or not).
  virtual void initialize(Trainer&) {}
  virtual void run(Trainer& trainer) = 0;
  // Follows a pass over a data set: called before each batch of this rank with the batch's number,
  // counted from 1, and the number of batches.
  using Watcher = std::function<void(std::int64_t batch, std::int64_t batches)>;
  // Evaluators call the watcher, for a display of progress.
  virtual void watch(const Watcher& /*watcher*/) {}
  // Another extension is about to report these values of all ranks, the same on every rank. An
  // exception prevents that. Collective.
  virtual void before_report(Trainer&, const Observation& /*all*/) {}
  // Another extension is about to report values of this rank alone. An exception prevents that. Not
  // collective.
  virtual void before_own_report(Trainer&) {}
  // A snapshot or checkpoint is about to be made. An exception prevents that. Collective.
  virtual void before_save(Trainer&) {}
  // Whether a resumed run runs this extension again, like those with a low priority (see above),
  // whatever its own priority is.
  virtual bool repeats_after_resume() const { return false; }
  // Whether finalize() saves a state from which a stopped run can continue.
  virtual bool saves_at_stop() const { return false; }
  // Called before the first finalize(): waits for work in the background, whose errors finalize()
  // throws. Not collective.
  virtual void finish_background_work() {}
  // Called after the last iteration, highest priority first; not after an exception. The last
  // snapshot is saved at priority_snapshot; long work that the snapshot does not need should have a
  // lower priority.
  virtual void finalize(Trainer&) {}
  // An exception is about to leave Trainer::run: saves what would be lost, on this rank alone,
  // because others may not get here. Must not replace the exception.
  virtual void on_error(Trainer&) {}
  // Called when a snapshot without state of this extension was loaded: the extension is new in a
  // resumed run. `times_fired`: how often its trigger would have fired before, if known.
  virtual void join_late(Trainer&, std::optional<std::int64_t> /*times_fired*/) {}
  // Saves or loads the state that a resumed run needs.
  virtual void serialize(const Serializer&) {}
};

// An extension that only calls a function.
std::unique_ptr<Extension> make_extension(std::string name, std::function<void(Trainer&)> run,
                                          int priority = Extension::priority_reader);

}  // namespace tasuki

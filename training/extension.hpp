// Extension: something that a trainer does besides updating: evaluate, report, save.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tasuki/training/snapshots/serializer.hpp"
#include "tasuki/training/trigger.hpp"

namespace tasuki {

class Observation;
class Trainer;

// Every rank has the same extensions; those that print or write do so on rank 0 only, by
// themselves. An exception in an extension travels out of Trainer::run.
class Extension {
 public:
  // Who runs first: writers add to the trainer's observation, editors change it, readers use it.
  // Then the stop trigger is asked, then come those with negative priority, which save the whole.
  static constexpr int priority_writer = 300;
  static constexpr int priority_editor = 200;
  static constexpr int priority_reader = 100;
  static constexpr int priority_snapshot = -100;

  virtual ~Extension() = default;
  virtual std::string default_name() const = 0;
  virtual int priority() const { return priority_reader; }
  virtual std::unique_ptr<Trigger> default_trigger() const { return every(1, Unit::iteration); }
  // Before the first iteration of this run (resumed or not).
  virtual void initialize(Trainer&) {}
  virtual void run(Trainer& trainer) = 0;
  // Another extension is about to report these values of all ranks, the same on every rank. An
  // exception keeps it from that. Collective.
  virtual void before_report(Trainer&, const Observation& /*all*/) {}
  // A snapshot is about to be made. An exception keeps it from that. Collective.
  virtual void before_save(Trainer&) {}
  // After the last iteration, highest priority first; not called when an exception ended the run
  // before.
  virtual void finalize(Trainer&) {}
  // An exception is about to leave Trainer::run: what would be lost is to be saved, by this rank
  // alone, as others may not get here. The exception stays the one that was thrown.
  virtual void on_error(Trainer&) {}
  // A snapshot without any state of it was loaded: it is new in a run that has gone on for a while,
  // in which its trigger would have fired so often, where that is known.
  virtual void join_late(Trainer&, std::optional<std::int64_t> /*times_fired*/) {}
  // State that a resumed run needs.
  virtual void serialize(const Serializer&) {}
};

// An extension that is no more than a function.
std::unique_ptr<Extension> make_extension(std::string name, std::function<void(Trainer&)> run,
                                          int priority = Extension::priority_reader);

}  // namespace tasuki

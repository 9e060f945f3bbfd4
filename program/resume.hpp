// Resuming a run from a snapshot (--resume): which snapshot, and whose settings count.
//
// Programs keep the flags of the optimizer, and --epoch, in their snapshots. A run that resumes
// takes those that it is not given from there. A flag that is given, on the command line or in a
// file, wins over the snapshot, also over the hyper-parameters in it, and a line says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/training_settings.hpp"
#include "tasuki/training/extensions/shift.hpp"
#include "tasuki/training/extensions/snapshot.hpp"

namespace tasuki::program {

// Flags by name, with their texts.
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

// What a run goes on from.
struct Continuation {
  std::optional<std::filesystem::path> snapshot;  // nothing: a new run
  FlagTexts kept_flags;                           // as they count in this run; snapshots keep them
  std::vector<std::string> overruled;  // flags of the schedule that differ from the snapshot's
  std::int64_t epochs_waited = 0;      // without improvement, for --early-stopping

  // Whether the run adds to the results in the folder `out`.
  bool goes_on_in(const TrainingSettings& settings) const;
};

// Finds --resume's snapshot (of a folder: the newest one that is intact) and takes flags that were
// not given from it, and --out from where it lies. Rank 0 reads the file; what is wrong with it is
// an error on all ranks. Collective.
Continuation find_continuation(Options& options, const TrainingSettings& settings,
                               Communicator& communicator);

// Checks the snapshot before data are read, and returns its position. Collective.
RunPosition check_resume(const std::filesystem::path& snapshot, const TrainingSettings& settings,
                         const Optimizer& optimizer, std::int64_t examples,
                         Communicator& communicator);

// Loads the snapshot into a trainer that has all its extensions, among them `schedule` of the
// learning rate (or null). Afterwards the optimizer has the values that flags govern as it had them
// before: those of a schedule's start. Collective.
void resume_training(const Continuation& continuation, Trainer& trainer,
                     const TrainingSettings& settings, Shift* schedule);

// Keeps Continuation::kept_flags in snapshots.
std::unique_ptr<Extension> keep_flags(const Continuation& continuation);

// "result/snapshot_iter_20 is at the end of --epoch 2; raise --epoch to go on" if there is nothing
// left to do, else empty.
std::string describe_end(const Continuation& continuation, const TrainingSettings& settings,
                         const RunPosition& position);

// "result/snapshot_iter_20, epoch 2, iteration 20", for the banner.
std::string describe_resume(const Continuation& continuation, const RunPosition& position);

}  // namespace tasuki::program

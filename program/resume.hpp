// Going on from a snapshot (--resume): whose settings count.
//
// The programs keep the flags of the optimizer in their snapshots. A run that goes on takes those
// that are not given to it from there. What is given, by command line or file, wins over the
// snapshot, also over the hyper-parameters in it, and a line says so.
#pragma once

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/program/training_options.hpp"
#include "tasuki/training/extensions/shift.hpp"
#include "tasuki/training/extensions/snapshot.hpp"

namespace tasuki::program {

// Takes flags that were not given from --resume's snapshot, --out from where it lies, and notes in
// `settings` those of the optimizer as they count now, and of a folder the snapshot: the newest
// that is whole. Rank 0 reads the file; what is wrong with it is an error on all ranks. Collective.
void inherit_flags(Options& options, TrainingSettings& settings, Communicator& communicator);

// Where a snapshot lies.
std::filesystem::path folder_of(const std::filesystem::path& snapshot);

// Checks --resume's snapshot before data are read, and returns its position. Collective.
RunPosition check_resume(const TrainingSettings& settings, const Optimizer& optimizer,
                         std::int64_t examples, Communicator& communicator);

// Loads --resume's snapshot into a trainer that has all its extensions, `schedule` of the learning
// rate (or null) among them. Afterwards the optimizer has the values that flags govern as it had
// them before: those of a schedule's start. Collective.
void go_on(Trainer& trainer, const TrainingSettings& settings, Shift* schedule);

// Keeps settings.optimizer_flags in snapshots.
std::unique_ptr<Extension> keep_flags(const TrainingSettings& settings);

// "result/snapshot_iter_20 is at the end of --epoch 2; raise --epoch to go on" where nothing is
// left to do from there, else empty.
std::string describe_end(const TrainingSettings& settings, const RunPosition& position);

// "result/snapshot_iter_20, epoch 2, iteration 20", for the banner.
std::string describe_resume(const TrainingSettings& settings, const RunPosition& position);

}  // namespace tasuki::program

// Resuming a run from a checkpoint or a snapshot (--resume): which one, and whose settings count.
// Their contents are the same; "saved state" stands for either.
//
// Programs keep the flags of the optimizer, and --epoch, in what they save. A resumed run takes
// from there the flags that it is not given. A flag that is given, on the command line or in a
// file, wins over the saved state, also over the hyper-parameters in it, and a line says so. Where
// the flags ask for the same as in the run that saved, its hyper-parameters stay: a program may
// have changed them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "communicator/communicator.hpp"
#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"
#include "program/start/model_grid.hpp"
#include "saving/saved_states.hpp"
#include "saving/state.hpp"
#include "training/extensions/shift.hpp"

namespace tasuki::program {

// Flags by name, with their texts.
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

// What a run resumes from, and the flags that follow from it.
struct Resumption {
  std::optional<ResumeSource> from;        // nothing: a new run. resume_training() closes its files
  FlagTexts kept_flags;                    // in effect in this run, for its saved states
  std::set<std::string> given;             // names of flags that this run was given
  std::vector<std::string> overruled;      // flags of the schedule that differ from the saved ones
  std::vector<std::string> of_other_data;  // flags of the data that do
  std::int64_t epochs_waited = 0;          // without improvement, for --early-stopping
  // Keys, ascending, of the images that the run left out (data_check.hpp); nothing if it did not
  // look for them.
  std::optional<std::vector<std::int64_t>> left_out;
  bool lacks_exif = false;  // the saved state does not say what the run did with EXIF orientation

  // Whether the run adds to the results in the folder `out`.
  bool goes_on_in(const TrainingSettings& settings) const;
};

// Checks that no other flag contradicts --resume, opens what it names (in a folder: the newest
// intact saved state), and takes from it the flags that were not given, and --out from its place.
// Rank 0 reads the file, with a model on several ranks the others their parts; errors are errors on
// all ranks. Collective.
Resumption find_resumption(Options& options, const TrainingSettings& settings,
                           Communicator& communicator);

// Checks what find_resumption() has found before data are read, and returns its position.
// `examples`: to train on; nothing if an iterator of the program's may deal them otherwise, so that
// only resume_training() can tell whether a position within an epoch is possible. `bucket_steps`:
// as in EpochLayout. Collective.
RunPosition check_resume(const Resumption& resumption, const TrainingSettings& settings,
                         const NamedOptimizers& optimizers, std::optional<std::int64_t> examples,
                         std::int64_t bucket_steps, Communicator& communicator,
                         const ModelGrid& grid);

// Loads the saved state into a trainer that has all its extensions, among them `schedule` of the
// learning rate (or null) and that of keep_flags(). Afterwards the hyper-parameters for which flags
// ask anew have these values, which with a schedule are its start. Collective.
void resume_training(Resumption& resumption, Trainer& trainer, const TrainingSettings& settings,
                     Shift* schedule, const ModelGrid& grid);

// Keeps Resumption::kept_flags in saved states, and the hyper-parameters of the optimizers as the
// flags have set them.
std::unique_ptr<Extension> keep_flags(const Resumption& resumption,
                                      const NamedOptimizers& optimizers);

// "result/snapshot_iter_20 is at the end of --epoch 2; raise --epoch to continue" if there is
// nothing left to do, else empty.
std::string describe_end(const Resumption& resumption, const TrainingSettings& settings,
                         const RunPosition& position);

// "result/snapshot_iter_20, epoch 2, iteration 20", for the banner.
std::string describe_resume(const Resumption& resumption, const RunPosition& position);

}  // namespace tasuki::program

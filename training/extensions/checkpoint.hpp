// Checkpoint: saves the whole state of a run while training goes on, to continue from it after a
// failure or a stop.
//
// Each checkpoint is a folder, OUT/checkpoints/iter_<iteration> (saving/checkpoint.hpp): the
// entries of a snapshot, checked by hashes, in one file or several. Training waits only while the
// arrays to be saved are copied in memory; a thread then writes the copy
// (saving/checkpoint_writer.hpp). The newest few checkpoints remain, and the best one.
//
// Attach Checkpoint to runs that must survive failures: it can save often, a checkpoint is either
// complete or absent, and old ones are removed when the disk is full. Attach Snapshot for files
// that are to be kept and read by other programs: each snapshot is one file with Chainer's names. A
// run may have both.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saving/replica_set.hpp"
#include "training/extension.hpp"

namespace tasuki {

class BackgroundThread;
class BestCheckpoint;

// Saves when `due` fires, at the end of the run, when the run is stopped, and, with keep_best, when
// the value is better than all earlier ones. Attach it before a Snapshot, whose files then hold the
// best value so far, and keep the default trigger (every iteration).
//
// If the disk is full, all checkpoints except the best and the newest intact one are removed; the
// first time, a warning names them. If a checkpoint still cannot be written, or cannot be written
// for another reason (a removed folder), a warning is printed and training continues; older
// checkpoints stay intact. At the end of the run this is an error. While one save is written the
// next one waits for it, so on a slow disk saves are late, but never overlap.
//
// The first rank writes everything, except:
// - With replica sets, the first rank of each writes the part of its set.
// - If states are sharded (OptimizerStates::shard) or groups of ranks have their own (LocalSteps),
//   and all ranks see one folder, each rank writes the states that it has, so nobody needs memory
//   for all of them.
// Such writers agree that all have succeeded before the checkpoint counts. They do so in the
// background if MPI allows calls from several threads; if not, they write in the foreground.
class Checkpoint : public Extension {
 public:
  struct Settings {
    // The number of newest checkpoints to keep, at least 1. If a run resumed from an earlier
    // checkpoint, checkpoints of later iterations may exist; they are neither counted nor removed.
    int n_retains = 3;
    // The key of an observed value that is compared every epoch; empty: no best checkpoint is kept.
    // The checkpoint with the best mean over an epoch and all ranks is kept, and OUT/best names it.
    // Larger is better if the key has "accuracy" in it, else smaller. A key that nothing observes
    // is a usage error (watched_value.hpp). A resumed run takes the best value and its checkpoint
    // from the saved state. If that checkpoint is missing from the output folder, or its files have
    // wrong sizes, the value is forgotten, and there is no best checkpoint until the next epoch.
    std::string keep_best{};
    // Whether files are written while training goes on.
    bool in_background = true;
    // The most iterations that a failure may cost, as long as files can be written: before training
    // gets further than that beyond the last complete checkpoint, it waits for the one that is
    // being written. If it is the N of the trigger `every(N, Unit::iteration)`, training waits for
    // every save.
    std::optional<std::int64_t> max_lost_iterations{};
    // The ranks whose states are the same; null: all of them.
    std::shared_ptr<const ReplicaSet> replicas{};
    // How long a run that has failed waits for the checkpoint that is being written, for example on
    // a disk that hangs. Not at all if several ranks write it, because some may be lost.
    std::chrono::milliseconds patience = std::chrono::seconds(10);
  };
  explicit Checkpoint(Settings settings, std::unique_ptr<Trigger> due = every_seconds(600));
  Checkpoint() : Checkpoint(Settings()) {}
  // Waits for what is being written, no longer than Settings::patience.
  ~Checkpoint() override;

  std::string default_name() const override { return "Checkpoint"; }
  int priority() const override { return priority_snapshot; }
  bool saves_at_stop() const override { return true; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  // Waits until this rank's background write has succeeded or failed; finalize() finds out which.
  void finish_background_work() override;
  void finalize(Trainer& trainer) override;
  void on_error(Trainer& trainer) override;
  void serialize(const Serializer& serializer) override;

 private:
  struct Task;

  SavingRanks ranks_of(const Trainer& trainer) const;
  bool writes(const Trainer& trainer) const;
  void check_divided_weights(Trainer& trainer);
  bool all_see_one_folder(const Trainer& trainer);

  // Whether the run was resumed from a checkpoint or snapshot of this iteration in the output
  // folder. Collective.
  bool is_saved(const Trainer& trainer, Communicator* all) const;
  // Whether the next iteration would be too far from the last complete checkpoint.
  bool is_at_limit(const Trainer& trainer) const;
  // Saves the current state; the task before must have ended. Collective, like the functions below
  // up to warn_of_failure().
  void begin(const Trainer& trainer);
  void save(Trainer& trainer, bool in_background);
  // Waits for the task under way, if there is one, and throws its error on all ranks.
  void finish(Trainer& trainer);
  // finish(), but only a warning if files cannot be written.
  void finish_or_warn(Trainer& trainer);
  void warn_of_failure(const Trainer& trainer, const std::function<void()>& work);
  void give_up(const Trainer& trainer);
  std::future<void> start(std::function<void()> work, bool in_background);
  // If the task has ended: says so on rank 0, once, and lets messages name it as the last one, or
  // warns of its failure. Not collective.
  void note_if_written(Trainer& trainer);
  void note_written(Trainer& trainer);
  // Says which ones were removed because there was no room: the first time as a warning.
  void note_removed(const Trainer& trainer);
  // Abandons the writing thread, so that the process can end without waiting for it.
  void abandon_writing();

  Settings settings_;
  std::unique_ptr<Trigger> due_;
  std::unique_ptr<BestCheckpoint> best_;   // null: none is kept
  std::shared_ptr<Communicator> writers_;  // that agree; null: one rank writes
  // Writers::first_on_disk of the folder `probed_`, until a save fails.
  std::vector<int> first_on_disk_;
  std::filesystem::path probed_;
  bool has_said_removed_ = false;
  std::int64_t saved_iteration_ = -1;
  std::int64_t complete_iteration_ = 0;           // of the last complete checkpoint, or the start
  std::shared_ptr<Task> task_;                    // under way; null: none
  std::future<void> writing_;                     // of its files; invalid if this rank has none
  std::unique_ptr<BackgroundThread> background_;  // ends before what it uses
};

}  // namespace tasuki

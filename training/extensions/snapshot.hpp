// Snapshot: saves the whole state of a run in one file, to resume from (resume() in
// training/resume.hpp). For saves that are made often, to survive failures, see Checkpoint
// (extensions/checkpoint.hpp).
//
// A snapshot is an NPZ file with Chainer's keys (state.hpp): updater/model:main/predictor/l1/W,
// updater/optimizer:main/predictor/l1/W/m, updater/iterator:main/epoch, extensions/LogReport/_log,
// extension_triggers/..., _snapshot_elapsed_time. Unlike Chainer's, it also has: the optimizer's
// hyper-parameters, the seed and the number of ranks. Chainer loads weights and optimizers, not the
// trainer: its triggers keep no state here. A run resumed with the same number of ranks gives the
// same bits as an uninterrupted one, unless algorithms or types are chosen by their speed
// (ConvAlgorithm::fastest, bfloat16 products, autotuned convolutions on GPUs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saving/replica_set.hpp"
#include "training/extension.hpp"

namespace tasuki {

// If a snapshot cannot be written (a full disk), a warning is printed and training continues; older
// snapshots stay intact. It is tried again when the next one is due and (Settings::retry_at_end) at
// the end of the run, where it is an error.
class Snapshot : public Extension {
 public:
  struct Settings {
    // "{iteration}" and "{epoch}" stand for the numbers.
    std::string filename = "snapshot_iter_{iteration}";
    // The number of newest snapshots of this name to keep; 0 keeps all. If a run resumed from an
    // earlier snapshot, snapshots of later iterations may exist; they are neither counted nor
    // removed.
    int n_retains = 0;
    // Also save after the last iteration of a run, unless it was stopped and a Checkpoint saves it.
    bool at_end = false;
    // Save at the end of the run if the last attempt failed. Set it to false if a snapshot is of
    // use only for the iteration in which it was due, as for the best value.
    bool retry_at_end = true;
    // Before the first iteration, resume from the newest snapshot of this name in the output
    // folder, if there is one.
    bool autoload = false;
  };
  explicit Snapshot(Settings settings);
  Snapshot() : Snapshot(Settings()) {}

  std::string default_name() const override { return "Snapshot"; }
  int priority() const override { return priority_snapshot; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool repeats_after_resume() const override { return true; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  // Whether each iteration has a separate file.
  bool is_numbered() const;
  // Sets Settings::at_end.
  void save_at_end() { settings_.at_end = true; }

 private:
  friend std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot>,
                                                              std::shared_ptr<const ReplicaSet>);

  void save(Trainer& trainer);
  std::string name_of_iteration(const Trainer& trainer) const;
  void load_newest(Trainer& trainer);
  void note_saved(Trainer& trainer) const;
  // Whether the run has saved the present iteration before it was resumed there. Collective.
  bool is_saved(Trainer& trainer) const;
  // Of a run that was resumed from a snapshot in its own folder.
  void name_latest(const Trainer& trainer) const;
  void remove_old(const std::filesystem::path& folder) const;

  Settings settings_;
  std::shared_ptr<const ReplicaSet> replicas_;
  std::int64_t saved_iteration_ = -1;
  bool has_failed_ = false;  // the last attempt; the same on all ranks
};

// Makes a snapshot of every replica set, each in a separate file: the first rank of a set writes
// it, with the set's suffix. A set restores all of its ranks from its file, and autoloading takes
// the newest iteration of which every set has one. All sets are saved in the same iterations;
// extensions are those of the trainers of each set. Collective. The communicator must outlive the
// extension.
std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot> snapshot,
                                                     Communicator& communicator,
                                                     const ReplicaSets& sets);
// create_multi_node_snapshot() with sets that were made before.
std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot> snapshot,
                                                     std::shared_ptr<const ReplicaSet> replicas);

// Collective: every rank takes part, rank 0 writes, atomically and synced to disk. If the file
// cannot be written, the old one stays and all ranks throw. With replica sets the first rank of
// each writes `path` with the set's suffix, and a failure of one is an error on all ranks.
void save_snapshot(const std::filesystem::path& path, Trainer& trainer,
                   const ReplicaSet* replicas = nullptr);

// The snapshots in `folder` whose names match `filename` (as in Settings), the highest iteration
// first; those with higher iterations than `latest` names (saving/output_layout.hpp) come after
// the others. `suffix`: of a replica set's files; the paths are without it.
std::vector<std::filesystem::path> snapshots_in(
    const std::filesystem::path& folder, const std::string& filename = "snapshot_iter_{iteration}",
    const std::string& suffix = "");
// The first of them; nothing if there is none.
std::optional<std::filesystem::path> newest_snapshot(
    const std::filesystem::path& folder, const std::string& filename = "snapshot_iter_{iteration}");

}  // namespace tasuki

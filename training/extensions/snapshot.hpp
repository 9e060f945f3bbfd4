// Snapshot: the whole state of a run in one file, and going on from it.
//
// An NPZ file with Chainer's keys (state.hpp has which): updater/model:main/predictor/l1/W,
// updater/optimizer:main/predictor/l1/W/m, updater/iterator:main/epoch, extensions/LogReport/_log,
// extension_triggers/..., _snapshot_elapsed_time. Also there, unlike in Chainer's: the optimizer's
// hyper-parameters, the seed and the number of ranks. Chainer loads the weights from it, not the
// trainer: its triggers keep no state here. A run resumed with as many ranks goes on bit
// for bit as if it had not been interrupted, unless it computes by what is the fastest algorithm or
// type here and now (ConvAlgorithm::fastest, bfloat16 products, autotuned convolutions on GPUs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tasuki/training/extension.hpp"
#include "tasuki/training/snapshots/replica_set.hpp"
#include "tasuki/training/snapshots/state.hpp"

namespace tasuki {

// The name of the snapshot with the best value, where a program keeps one (no {iteration} in it, so
// that it is never taken for the newest).
inline constexpr const char* best_snapshot_name = "snapshot_best";

// A snapshot that cannot be written (a full disk) is a warning: older ones are intact, and training
// goes on. It is tried again when the next one is due and (Settings::retry_at_end) at the end of
// the run, where it is an error.
class Snapshot : public Extension {
 public:
  struct Settings {
    // "{iteration}" and "{epoch}" stand for the numbers.
    std::string filename = "snapshot_iter_{iteration}";
    // Keep the newest so many snapshots of this name, those of later iterations (which a run that
    // goes on from an earlier one may find) not counted; 0 keeps all.
    int n_retains = 0;
    // Also save after the last iteration of a run.
    bool at_end = false;
    // Save at the end of the run when the last attempt failed. Not for snapshots that stand for
    // the iteration they were due in, as that of the best value does.
    bool retry_at_end = true;
    // Before the first iteration, go on from the newest snapshot of this name in the output folder,
    // where there is one.
    bool autoload = false;
  };
  explicit Snapshot(Settings settings);
  Snapshot() : Snapshot(Settings()) {}

  std::string default_name() const override { return "Snapshot"; }
  int priority() const override { return priority_snapshot; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

  // Whether each iteration has a file of its own.
  bool is_numbered() const;
  // As if Settings::at_end had been set.
  void save_at_end() { settings_.at_end = true; }

 private:
  friend std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot>,
                                                              Communicator&, const ReplicaSets&);

  void save(Trainer& trainer);
  void remove_old(const std::filesystem::path& folder) const;

  Settings settings_;
  std::unique_ptr<ReplicaSet> replicas_;
  std::int64_t saved_iteration_ = -1;
  bool has_failed_ = false;  // the last attempt; the same on all ranks
};

// Makes a snapshot of every replica set, in files of their own: the first rank of a set writes it,
// with the set's suffix. A set restores all of its ranks from its file, and autoloading takes the
// newest iteration of which every set has one. All sets are saved in the same iterations;
// extensions are those of the trainers of each set. Collective. The communicator must outlive the
// extension.
std::unique_ptr<Snapshot> create_multi_node_snapshot(std::unique_ptr<Snapshot> snapshot,
                                                     Communicator& communicator,
                                                     const ReplicaSets& sets);

// Collective: every rank takes part, rank 0 writes, atomically and synced to disk. A file that
// cannot be written leaves what was there and is an error. With replica sets the first rank of each
// writes `path` and its suffix, and a failure of one is an error on all ranks.
void save_snapshot(const std::filesystem::path& path, Trainer& trainer,
                   const ReplicaSet* replicas = nullptr);

// Collective: rank 0 reads and tells the others. Call it after all extensions are attached and
// before run(). A damaged file, one of another model, optimizer or seed, or one from the middle of
// an epoch with another number of ranks is refused with the same one line on all ranks. With
// replica sets: `path` without a suffix.
void resume(const std::filesystem::path& path, Trainer& trainer,
            const ReplicaSet* replicas = nullptr);

// A run before there are data or a trainer.
struct RunOutline {
  RunIdentity identity;
  EpochLayout layout;
  std::int64_t steps_per_epoch = 0;
};
// Refuses what resume() would: a file that is missing or damaged, another model, optimizer or seed,
// a position that this run cannot go on from. Returns the position. Collective; the communicator
// may be null.
RunPosition check_snapshot(const std::filesystem::path& path, const RunOutline& run,
                           const Optimizer& optimizer, Communicator* communicator);

// The snapshots in `folder` whose name is `filename` (as in Settings) filled in, the highest
// iteration first.
std::vector<std::filesystem::path> snapshots_in(
    const std::filesystem::path& folder, const std::string& filename = "snapshot_iter_{iteration}");
// The first of them; nothing when there is none.
std::optional<std::filesystem::path> newest_snapshot(
    const std::filesystem::path& folder, const std::string& filename = "snapshot_iter_{iteration}");

}  // namespace tasuki

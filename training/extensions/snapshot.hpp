// Snapshot: the whole state of a run in one file, and going on from it.
//
// An NPZ file with Chainer's keys: updater/model:main/predictor/l1/W,
// updater/optimizer:main/predictor/l1/W/m, updater/iterator:main/epoch, extensions/LogReport/_log,
// extension_triggers/..., _snapshot_elapsed_time. Also there, unlike in Chainer's: the optimizer's
// hyper-parameters, the seed and the number of ranks. A run resumed with as many ranks goes on bit
// for bit as if it had not been interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tasuki/training/extension.hpp"

namespace tasuki {

// A snapshot that cannot be written (a full disk) is a warning: older ones are intact, and training
// goes on. It is tried again when the next one is due and at the end of the run, where it is an
// error.
class Snapshot : public Extension {
 public:
  struct Settings {
    // "{iteration}" and "{epoch}" stand for the numbers.
    std::string filename = "snapshot_iter_{iteration}";
    // Keep the newest so many snapshots of this name; 0 keeps all.
    int n_retains = 0;
    // Also save after the last iteration of a run.
    bool at_end = false;
  };
  explicit Snapshot(Settings settings);
  Snapshot() : Snapshot(Settings()) {}

  std::string default_name() const override { return "Snapshot"; }
  int priority() const override { return priority_snapshot; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;

 private:
  void save(Trainer& trainer);
  void remove_old(const std::filesystem::path& folder) const;

  Settings settings_;
  std::int64_t saved_iteration_ = -1;
  bool has_failed_ = false;  // the last attempt; the same on all ranks
};

// Collective: every rank takes part, rank 0 writes, atomically and synced to disk. A file that
// cannot be written leaves what was there and is an error.
void save_snapshot(const std::filesystem::path& path, Trainer& trainer);

// Collective: rank 0 reads and tells the others. Call it after all extensions are attached and
// before run(). A damaged file, one of another model, optimizer or seed, or one from the middle of
// an epoch with another number of ranks is refused with the same one line on all ranks.
void resume(const std::filesystem::path& path, Trainer& trainer);

// The snapshot with the highest iteration in `folder` whose name is `filename` (as in Settings)
// filled in; nothing when there is none.
std::optional<std::filesystem::path> newest_snapshot(
    const std::filesystem::path& folder, const std::string& filename = "snapshot_iter_{iteration}");

}  // namespace tasuki

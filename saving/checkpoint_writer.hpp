// Writing checkpoints (checkpoint.hpp), together with other ranks if each has a part of the state:
// CheckpointArrays are what a rank writes, CheckpointWriter writes them, and CheckpointTask is all
// that a thread has to do for it.
//
// The files are written into a folder with a temporary name (output_layout.hpp) and synced to disk;
// then the manifest; then, when all writers have succeeded, the folder gets its name; at last
// `latest` names it. So after a crash at any moment there is a complete checkpoint or none, and
// older ones are untouched. If the name is taken, because the run went back to an earlier
// iteration, it becomes iter_<N>-2, -3, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "saving/checkpoint.hpp"
#include "saving/serializer.hpp"
#include "saving/writers.hpp"

namespace tasuki {

// What one rank writes. Arrays are only read while it is written, and must not change meanwhile.
struct CheckpointArrays {
  std::string part;              // of the model, as in CheckpointManifest::File
  std::vector<NpzEntry> state;   // state<part>.npz; empty if another writer has it
  std::vector<NpzPiece> pieces;  // optimizer.<writer>.npz; only where all writers see one folder
};

// Copies the arrays to host memory of their own, so that training may change its arrays. What
// nothing else refers to, because it was gathered from other ranks or packed, is not copied. Host
// memory is pooled, so each checkpoint reuses the blocks of the one before.
void detach(CheckpointArrays& arrays);

// What all writers know of a checkpoint.
struct CheckpointInfo {
  std::filesystem::path out;  // the run's output folder, which exists at least for writer 0
  std::int64_t iteration = 0, epoch = 0;
  std::int64_t parts = 1;  // of the model
  std::string id{};        // CheckpointManifest::id; writer 0's counts. Empty: a random one
  // Writers::first_on_disk of the output folder; empty: it is looked up.
  std::vector<int> first_on_disk{};
};

// Neither blocks nor uses anything of the thread that trains: it may run in the background.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointInfo info, Writers writers = {});
  // Removes what is not complete.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes the checkpoint, together with all writers, and returns its folder. If the disk fails for
  // one of them (it is full, the folder is gone), all throw an error of kind cannot_write; other
  // errors of one writer, such as too little memory, keep their kind on all. The unfinished folder
  // is then removed, and nothing else has changed. If name_latest() fails, the checkpoint is
  // complete.
  std::filesystem::path write(const CheckpointArrays& arrays);

  // The steps of write(), in their order.
  void make_folder();
  void write_files(const CheckpointArrays& arrays);
  void write_manifest();
  void publish();
  void name_latest();

  // Known after make_folder(): whether this writer is the first that sees its disk, and so makes
  // the folder and the manifest for the others that do.
  bool is_first_on_disk() const { return works_for_disk_; }
  const std::vector<int>& first_on_disk() const { return first_on_disk_; }  // of all writers
  // Whether it has its name, on all disks.
  bool is_complete() const { return is_complete_; }
  // The name that it has, or gets.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::vector<CheckpointManifest::File> files_of(const CheckpointArrays& arrays) const;
  CheckpointManifest::File write_entries(const std::string& name, const std::string& part,
                                         const std::vector<NpzEntry>& entries) const;
  int own_first() const { return first_on_disk_[static_cast<std::size_t>(writers_.index())]; }
  void discard() noexcept;

  CheckpointInfo info_;
  Writers writers_;
  std::string id_;
  std::vector<int> first_on_disk_;  // by writer
  bool works_for_disk_ = false;
  std::filesystem::path folder_, unfinished_;
  bool is_made_ = false;                         // unfinished_, by this writer
  std::vector<CheckpointManifest::File> files_;  // on this disk
  bool is_complete_ = false;
};

// Writes a checkpoint and removes old ones, for a thread to do.
struct CheckpointTask {
  // What to write, and how many checkpoints remain.
  CheckpointInfo info{};
  Writers writers{};
  CheckpointArrays arrays{};
  int n_retains = 1;
  bool is_best = false;  // the file `best` is to name it

  // What has become of it. Valid when run() has ended.
  std::filesystem::path path{};        // empty: not complete
  std::string failure{};               // of writing files; empty: none
  std::vector<std::string> removed{};  // by make_room(), for want of room
  std::vector<int> first_on_disk{};    // Writers::first_on_disk
  double seconds = 0;                  // that it took

  // Writes the checkpoint, names it, removes old ones, and frees `arrays`. If a disk is full,
  // make_room() (retention.hpp), and if that removes something, once more from the start. All
  // writers call it; errors are those of CheckpointWriter::write().
  void run();

 private:
  void write();
};

}  // namespace tasuki

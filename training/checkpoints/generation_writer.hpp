// GenerationWriter: writes a generation (generation.hpp), together with other ranks if each has a
// part of the state.
//
// The files are written into a folder with a temporary name (generations.hpp) and synced to disk;
// then the manifest; then, when all writers have succeeded, the folder gets its name; at last
// `latest` names it. So after a crash at any moment there is a complete generation or none, and
// older ones are untouched. If the name is taken, because the run went back to an earlier
// iteration, it becomes iter_<N>-2, -3, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/range.hpp"
#include "tensor/shape.hpp"
#include "training/checkpoints/generation_share.hpp"
#include "training/checkpoints/manifest.hpp"
#include "training/checkpoints/writers.hpp"

namespace tasuki {

// What all writers know of a generation.
struct GenerationOutline {
  std::filesystem::path out;  // the run's output folder, which exists at least for writer 0
  std::int64_t iteration = 0, epoch = 0;
  std::int64_t parts = 1;  // of the model
  std::string id{};        // Manifest::id; that of writer 0 counts. Empty: a random one
  // Writers::first_on_disk of the output folder; empty: it is looked up.
  std::vector<int> first_on_disk{};
};

// Neither blocks nor uses anything of the thread that trains: it may run in the background.
class GenerationWriter {
 public:
  explicit GenerationWriter(GenerationOutline outline, Writers writers = {});
  // Removes what is not complete.
  ~GenerationWriter();
  GenerationWriter(const GenerationWriter&) = delete;
  GenerationWriter& operator=(const GenerationWriter&) = delete;

  // All of it, on all writers. Returns the generation's folder. If the disk fails (it is full, the
  // folder is gone) for one of them, all throw an error of kind cannot_write; other errors of one
  // writer, such as too little memory, keep their kind on all. The unfinished folder is then
  // removed, and nothing else has changed. If name_latest() fails, the generation is complete.
  std::filesystem::path write(const GenerationShare& share);

  // The steps of write(), in their order.
  void make_folder();
  void write_files(const GenerationShare& share);
  void write_manifest();
  void publish();
  void name_latest();

  // Known after make_folder(): whether this writer is the first of those that see its disk, which
  // works for all of them.
  bool is_first_on_disk() const { return works_for_disk_; }
  const std::vector<int>& first_on_disk() const { return first_on_disk_; }  // of all writers
  // Whether it has its name, on all disks.
  bool is_complete() const { return is_complete_; }
  // The name that it has, or gets.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::vector<Manifest::File> files_of(const GenerationShare& share) const;
  Manifest::File write_entries(const std::string& name, const std::string& part,
                               const std::vector<NpzEntry>& entries) const;
  int own_first() const { return first_on_disk_[static_cast<std::size_t>(writers_.index())]; }
  void discard() noexcept;

  GenerationOutline outline_;
  Writers writers_;
  std::string id_;
  std::vector<int> first_on_disk_;  // by writer
  bool works_for_disk_ = false;
  std::filesystem::path folder_, unfinished_;
  bool is_made_ = false;               // unfinished_, by this writer
  std::vector<Manifest::File> files_;  // on this disk
  bool is_complete_ = false;
};

}  // namespace tasuki

// Generation: the whole state of a run at one iteration, in a folder of its own, to read from.
//
//   result/checkpoints/iter_600/state.npz         what a snapshot has; of a model on several ranks
//                                                 state.0.npz, state.1.npz, ... for its parts
//                              optimizer.2.npz    rank 2's pieces of the optimizer's states, if
//                                                 they are divided between ranks
//                              manifest.json      sizes and hashes (manifest.hpp)
//
// NPZ files with Chainer's names, each readable by itself. A folder of this name is complete: it is
// written under another one (generation_writer.hpp). Every change of a file is found, and so are
// files of two saves in one folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "training/checkpoints/manifest.hpp"
#include "training/snapshots/npz.hpp"

namespace tasuki {

// One part of the model, or all of it, with everything else of that state. Arrays that are divided
// between files come back whole, so it does not matter how many ranks have written them.
class Generation : public ArraySource {
 public:
  // Reads and checks all files of the part; of other parts, whether they are there and have the
  // right size. Reports progress meanwhile. Errors name the file and the reason: of kind missing if
  // `folder` is no generation or does not have the part, of kind data if it is damaged, of another
  // kind if the system does not let it be read. `part`: as in Manifest::File.
  explicit Generation(std::filesystem::path folder, const std::string& part = "");

  const Manifest& manifest() const { return manifest_; }

  // The folder.
  const std::filesystem::path& path() const override { return folder_; }
  std::vector<std::string> names() const override { return names_; }
  std::optional<ArrayType> find(const std::string& name) const override;
  // The array's hash is checked once more.
  NpzValue read(const std::string& name) const override;

 private:
  // Where an array is, or a piece of it.
  struct Place {
    const NpzFile* file;
    const Manifest::Array* array;
  };
  void open(const Manifest::File& file);
  void add_pieces();
  NpzValue put_together(const std::string& name, const std::vector<Place>& places) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<NpzFile>> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<Place>> places_;  // pieces in the order of their ranges
  std::map<std::string, ArrayType> types_;            // of whole arrays
};

// The generation of this id (Manifest::id) in an output folder, whose manifest is intact and whose
// files are there with their sizes; contents are not read. Nothing if there is none; an error if
// that cannot be found out.
std::optional<std::filesystem::path> find_generation(const std::filesystem::path& out,
                                                     const std::string& id);

// Whether an error of opening says that a saved state is damaged, incomplete or not there. After
// another one (a disk that fails, no memory, no permission, too many open files) it may be intact.
bool is_damage(const Error& error);

// Opens what a run saved: a generation, if `path` is a folder, or a snapshot, of a part of the
// model the file with the suffix `part`.
std::unique_ptr<ArraySource> open_saved_state(const std::filesystem::path& path,
                                              const std::string& part = "");

}  // namespace tasuki

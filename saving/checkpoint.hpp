// A checkpoint: the whole state of a run at one iteration, in a folder to continue from.
//
//   result/checkpoints/iter_600/state.npz         the contents of a snapshot. If a model spans
//                                                 several ranks: state.0.npz, state.1.npz, ..., one
//                                                 for each of its parts
//                              optimizer.2.npz    rank 2's pieces of the optimizer's states, if
//                                                 they are sharded (OptimizerStates::shard), each
//                                                 rank has a whole model and all ranks see one
//                                                 folder; otherwise they are in state.npz
//                              manifest.json      sizes and hashes of files and arrays
//
// A disk has such a folder only if a rank writes a file there: usually rank 0's disk alone. If a
// model spans ranks with separate disks, each of these disks has a folder of this name, with its
// own files and manifest. The NPZ files use Chainer's names, and each can be read without the
// others. A folder named iter_N is complete, because it is written under a temporary name and then
// renamed (checkpoint_writer.hpp). Changed files are detected, and so is a folder that mixes files
// of two saves.
//
// Sources: manifest.cpp has the manifest, checkpoint.cpp reads checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/range.hpp"
#include "saving/npz.hpp"

namespace tasuki {

inline constexpr const char* manifest_name = "manifest.json";

// Which files and arrays belong to a checkpoint, with hashes.
//
// A JSON text file, one line per array. Its last entry, "xxh3", is the hash of all lines before it.
// A file that is not exactly in the form in which manifests are written is refused, so any change
// is found.
struct CheckpointManifest {
  // Part of an array that is divided between several files.
  struct Piece {
    Range range;  // of the elements in the array's order
    Shape whole;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  struct Array {
    std::string name;
    std::uint64_t hash = 0;      // XXH3 of the entry, an array in NPY format
    std::optional<Piece> piece;  // nothing: all of the array
    friend bool operator==(const Array&, const Array&) = default;
  };
  // An NPZ file in the manifest's folder.
  struct File {
    std::string name;
    // The part of the model, as in the name state.2.npz: ".2" (replica_set.hpp); empty: all of it.
    std::string part;
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;  // of all of it, as in npz.hpp
    std::vector<Array> arrays;
    friend bool operator==(const File&, const File&) = default;
  };

  std::string id;  // of the save: 32 random hexadecimal digits, equal in the manifests of all disks
  std::int64_t iteration = 0, epoch = 0;
  std::int64_t parts = 1;   // of the model, on all disks together
  std::vector<File> files;  // on this disk

  // The contents of the file.
  std::string text() const;
  // The inverse of text(). Throws an error of kind data that begins with `place` and names what is
  // wrong.
  static CheckpointManifest parse(std::string_view text, std::string_view place);
  // Reads the manifest of the checkpoint in `folder`. An error of kind missing if there is none, of
  // kind data if it is damaged, of kind io if it cannot be read.
  static CheckpointManifest read(const std::filesystem::path& folder);

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

// Converts a File to one line of text and back, so that a rank can send it to the rank that writes
// the manifest.
std::string to_line(const CheckpointManifest::File& file);
CheckpointManifest::File file_of_line(std::string_view line);

// Reads a checkpoint: the model, or one part of it, and the rest of the saved state (optimizer,
// position, extensions). Arrays that are divided between files come back whole, so it does not
// matter how many ranks wrote them.
class CheckpointReader : public ArraySource {
 public:
  // Reads and checks all files of the part; of the other parts' files, checks only existence and
  // size. Reports progress meanwhile. Errors name the file and the reason: of kind missing if
  // `folder` is not a checkpoint or does not have the part, of kind data if it is damaged, of
  // another kind if the system fails to read it. `part`: as in CheckpointManifest::File.
  explicit CheckpointReader(std::filesystem::path folder, const std::string& part = "");

  const CheckpointManifest& manifest() const { return manifest_; }

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
    const CheckpointManifest::Array* array;
  };
  void open(const CheckpointManifest::File& file);
  void add_pieces();
  NpzValue put_together(const std::string& name, const std::vector<Place>& places) const;

  std::filesystem::path folder_;
  CheckpointManifest manifest_;
  std::vector<std::unique_ptr<NpzFile>> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<Place>> places_;  // pieces in the order of their ranges
  std::map<std::string, ArrayType> types_;            // of whole arrays
};

// Finds the checkpoint with this id (CheckpointManifest::id) in an output folder. Its manifest must
// be intact, and its folder must hold the files that the manifest names, with the sizes given
// there; contents are not read. Returns nothing if there is none. Throws if the folder or a
// manifest in it cannot be read.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& out,
                                                     const std::string& id);

// Whether this error of opening a checkpoint or snapshot means that it is damaged, incomplete or
// absent. After any other error (a failing disk, no memory, no permission, too many open files) it
// may be intact.
bool is_damage(const Error& error);

}  // namespace tasuki

// NPZ files: a zip of NumPy arrays (numpy.savez), Chainer's format for models and snapshots.
//
// Entries are stored, not deflated (weights do not compress), each an array in NPY format 1.0 (NEP
// 1): "\x93NUMPY", version, header length, a Python dict with type, order and shape, data.
// Integrity: zip keeps a CRC-32 of each entry; files written here also end in a zip comment with
// the hash of all bytes before it (file_hash.hpp), so that flipped bits and truncation are
// detected. Equal entries make equal files, because no time is stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training/snapshots/array_source.hpp"

namespace tasuki {

struct NpzEntry {
  std::string name;  // without ".npy"
  NpzValue value;
};

// Elements [begin, begin + entry's length) of an array of another shape.
struct NpzPiece {
  NpzEntry entry;  // one axis
  std::int64_t begin = 0;
  Shape whole;
};

// Replaces `path` atomically (core/file.hpp) by a file with these entries, at least one. Tensors
// may be on any device; bfloat16, which NumPy lacks, is stored as float32.
void write_npz(const std::filesystem::path& path, const std::vector<NpzEntry>& entries);

// What was written.
struct WrittenNpz {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;              // of the file, as it stands in it
  std::vector<std::uint64_t> entries;  // XXH3 of each array in NPY format
};
// The same straight into the file, which is not synced to disk. If it fails, the file is useless.
WrittenNpz write_npz_directly(const std::filesystem::path& path,
                              const std::vector<NpzEntry>& entries);

// An NPZ file open for reading, written here or by NumPy (stored or deflated; C order; types f2,
// f4, f8, i4, i8, u1, b1 and U; what else there is can be found, but not read). Opening checks the
// directory, the entries' headers and sizes, and the hash of the whole file if there is one; an
// entry's contents are unpacked and checked (CRC) when they are read. Damage is an error of kind
// data with the entry's name; what the system does not let be read is of another kind.
class NpzFile : public ArraySource {
 public:
  // `require_hash`: refuse files without the hash that write_npz adds.
  explicit NpzFile(const std::filesystem::path& path, bool require_hash = false);
  ~NpzFile() override;
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::string> names() const override;
  std::optional<ArrayType> find(const std::string& name) const override;
  NpzValue read(const std::string& name) const override;
  // The same; an entry is also refused if the XXH3 of its bytes (the array in NPY format) is not
  // `hash`.
  NpzValue read(const std::string& name, std::uint64_t hash) const;

  // The hash of the whole file, which opening it has checked; nothing if there is none in it.
  std::optional<std::uint64_t> hash() const;

 private:
  struct Archive;
  std::filesystem::path path_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace tasuki

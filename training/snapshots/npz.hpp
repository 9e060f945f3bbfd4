// NPZ files: a zip of NumPy arrays (numpy.savez), Chainer's format for models and snapshots.
//
// Entries are stored, not deflated (weights do not compress), each an array in NPY format 1.0 (NEP
// 1): "\x93NUMPY", version, header length, a Python dict with type, order and shape, data.
// Integrity: zip keeps a CRC-32 of each entry; files written here also end in a zip comment with
// the XXH3 hash of all bytes before it, so that flipped bits and truncation are detected. Equal
// entries make equal files, because no time is stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tasuki/training/snapshots/npy.hpp"

namespace tasuki {

struct NpzEntry {
  std::string name;  // without ".npy"
  NpzValue value;
};

// Replaces `path` atomically (core/file.hpp) by a file with these entries, at least one. Tensors
// may be on any device; bfloat16, which NumPy lacks, is stored as float32.
void write_npz(const std::filesystem::path& path, const std::vector<NpzEntry>& entries);

// An NPZ file open for reading, written here or by NumPy (stored or deflated; C order; types f2,
// f4, f8, i4, i8, u1, b1 and U). Opening checks the directory, the entries' headers and sizes, and
// the hash of the whole file if there is one; an entry's contents are unpacked and checked (CRC)
// when they are read. Damage is an error of kind data with the entry's name.
class NpzFile {
 public:
  // `require_hash`: refuse files without the hash that write_npz adds.
  explicit NpzFile(const std::filesystem::path& path, bool require_hash = false);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Names in the file's order.
  std::vector<std::string> names() const;
  // Nothing if there is no such entry.
  std::optional<NpyHeader> find(const std::string& name) const;
  // The entry's values in host memory.
  NpzValue read(const std::string& name) const;

 private:
  struct Archive;
  std::filesystem::path path_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace tasuki

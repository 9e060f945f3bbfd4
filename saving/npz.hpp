// NPZ files: a zip of NumPy arrays (numpy.savez), Chainer's format for models and snapshots.
//
// Entries are stored, not deflated (weights do not compress), each an array in NPY format 1.0 (NEP
// 1): "\x93NUMPY", version, header length, a Python dict with type, order and shape, data.
// Integrity: zip keeps a CRC-32 of each entry; files written here also end in a zip comment with
// the hash of all bytes before it (FileHash in core/hash.hpp), so that flipped bits and truncation
// are detected. Equal entries make equal files, because no time is stored.
//
// Sources: npz.cpp reads files, npz_writer.cpp writes them, npy.cpp has the format of an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saving/array_source.hpp"
#include "saving/npz_entry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// --- files ---

// Replaces `path` atomically (core/file.hpp) by a file with these entries, at least one. Tensors
// may be on any device; bfloat16, which NumPy lacks, is stored as float32.
void write_npz(const std::filesystem::path& path, const std::vector<NpzEntry>& entries);

// What was written.
struct WrittenNpz {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;              // of the file, as it stands in it
  std::vector<std::uint64_t> entries;  // XXH3 of each array in NPY format
};
// write_npz() straight into the file, which is not synced to disk. If it fails, the file is
// useless.
WrittenNpz write_npz_directly(const std::filesystem::path& path,
                              const std::vector<NpzEntry>& entries);

class RegularFile;
struct NpyHeader;

// An NPZ file open for reading, written here or by NumPy (stored or deflated; C order; types f2,
// f4, f8, i4, i8, u1, b1 and U; entries of other types can be found, but not read). Opening checks
// the directory, the entries' headers and sizes, and the hash of the whole file if there is one; an
// entry's contents are unpacked and checked (CRC) when they are read. Damage is an error of kind
// data with the entry's name; a failure of the system to read the file is an error of another kind.
class NpzFile : public ArraySource {
 public:
  // `require_hash`: refuse files without the hash that write_npz adds.
  explicit NpzFile(const std::filesystem::path& path, bool require_hash = false);
  explicit NpzFile(const RegularFile& file, bool require_hash = false);
  ~NpzFile() override;
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::string> names() const override;
  std::optional<ArrayType> find(const std::string& name) const override;
  NpzValue read(const std::string& name) const override;
  // read(), but an entry is also refused if the XXH3 of its bytes (the array in NPY format) is not
  // `hash`.
  NpzValue read(const std::string& name, std::uint64_t hash) const;

  // For elements of types that read() refuses: the header, and the bytes after it.
  std::optional<NpyHeader> header(const std::string& name) const;
  Tensor read_elements(const std::string& name) const;

  // The hash of the whole file, which opening it has checked; nothing if there is none in it.
  std::optional<std::uint64_t> hash() const;

 private:
  struct Archive;
  std::filesystem::path path_;
  std::unique_ptr<Archive> archive_;
};

// The comment at the end of a file: this and the 16 hexadecimal digits of its hash.
inline constexpr std::string_view npz_hash_label = "tasuki xxh3 ";
inline constexpr std::size_t npz_hash_digits = 16;

// --- NPY: one array, as a header and its elements ---

// The contents of a header.
struct NpyHeader : ArrayType {
  std::string type = {};    // NumPy's name, as it stands there: "<f4", ">i2"
  bool is_fortran = false;  // column-major, with several axes
  std::int64_t characters = 0;
  std::size_t header_bytes = 0;    // with magic and padding
  std::size_t data_bytes() const;  // unknown if it is unreadable
};

// Longest header that is read; real ones have a few hundred bytes.
inline constexpr std::size_t npy_header_limit = 4096;

// Header for these elements (bfloat16 is announced as float32).
std::string npy_header(const NpzValue& value);
// Parses the start of a file (at least npy_header_limit bytes of it, or all). Throws an error of
// kind data that begins with `name` if it is damaged; arrays of other types and orders are
// unreadable.
NpyHeader parse_npy_header(std::span<const std::byte> start, std::string_view name);

// The elements that follow the header: a host tensor of a type that NumPy has, uint8 for texts.
Tensor npy_elements(const NpzValue& value);
// The reverse, from a buffer of header.data_bytes() bytes.
NpzValue npy_value(const NpyHeader& header, const Tensor& elements);

}  // namespace tasuki

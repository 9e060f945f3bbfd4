// ZipWriter: writes a zip file of stored (uncompressed) entries from front to back.
//
// All bytes pass once, in their final order, so the hash of the file is known without reading it
// again. (libzip, which reads the files, goes back to each entry's header after its contents.)
// Format: PKWARE's APPNOTE 6.3; entries, sizes and places that need it are in zip64. No time is
// stored: equal entries make equal files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "training/snapshots/file_hash.hpp"

namespace tasuki {

// Errors are of kind cannot_write and name the file and the cause. A file that is not finished is
// no zip file; the caller removes it.
class ZipWriter {
 public:
  // Makes the file, which must not be there. `bytes`: how large it will be, which errors of a full
  // disk say.
  explicit ZipWriter(std::filesystem::path path, std::uint64_t bytes = 0);

  // The bytes that a file has besides the contents of such entries, a hash at its end included;
  // without zip64, which adds a few to files of 4 GB and more.
  static std::uint64_t bytes_around(const std::vector<std::string>& names, std::string_view label);

  // An entry whose contents are `header` and then `data`. Returns their XXH3. Names are different.
  std::uint64_t add(const std::string& name, std::span<const std::byte> header,
                    std::span<const std::byte> data);

  // What a file became.
  struct Result {
    std::uint64_t bytes;
    std::uint64_t hash;  // FileHash of all but the last 16 bytes
  };
  // Writes the directory and ends the file in a comment: `label` and 16 digits, the hash of all
  // bytes before. Closes the file; does not sync it.
  Result finish(std::string_view label);

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc;
    std::uint64_t bytes, offset;
  };
  void put(std::span<const std::byte> bytes);
  void put(std::string_view bytes) { put(std::as_bytes(std::span(bytes))); }
  void flush();
  void write_all(std::span<const std::byte> bytes);
  [[noreturn]] void fail_to_write() const;

  std::filesystem::path path_;
  std::uint64_t bytes_;
  Descriptor file_;
  std::vector<std::byte> waiting_;  // to be written together
  std::uint64_t offset_ = 0;
  FileHash hash_;
  std::vector<Entry> entries_;
};

}  // namespace tasuki

// RegularFile: a file that is opened once and read from any place in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/descriptor.hpp"

namespace tasuki {

// Another process may replace the path at any time (replace_file); what is read here stays of the
// file that was opened. Errors name the path: of kind missing if it is not a regular file that can
// be opened, io if the system fails, data if the file became shorter.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // The size when it was opened.
  std::uint64_t bytes() const { return bytes_; }
  const Descriptor& descriptor() const { return descriptor_; }
  // Fills `to` with the bytes from `begin` on.
  void read(std::uint64_t begin, std::span<std::byte> to) const;
  // FileHash (core/hash.hpp) of the first `bytes` bytes, at most all.
  std::uint64_t hash(std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tasuki

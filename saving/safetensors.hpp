// safetensors files (github.com/huggingface/safetensors): named arrays, as users of PyTorch keep
// weights. Nothing in such a file is executed.
//
// 8 bytes have the length of a header (little-endian), then comes the header, a JSON object, then
// the elements of all arrays without gaps, row-major and little-endian. The header has for each
// array its type, its shape and where its elements begin and end, and texts under "__metadata__".
// The format has no hash and no checksum: damaged elements are not noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saving/array_source.hpp"

namespace tasuki {

class RegularFile;

// A safetensors file open for reading. Opening checks the header as the format's own library does:
// elements lie inside the file, have the size of type and shape, and neither overlap nor leave
// gaps. Damage is an error of kind data that names the file.
//
// Types that Tasuki has stay as they are (F32, F64, F16, BF16, I32, I64, U8). Others are read as a
// wider one: BOOL as uint8; I8, I16 and U16 as int32; U32 and U64 as int64 (larger values of U64
// are an error); floats of 8 bits (F8_*) as float32. Arrays of C64, F4 and F6_* can be found, but
// not read.
class SafetensorsFile : public ArraySource {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  explicit SafetensorsFile(RegularFile file);
  ~SafetensorsFile() override;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const override;
  // In the order of their elements.
  std::vector<std::string> names() const override;
  std::optional<ArrayType> find(const std::string& name) const override;
  NpzValue read(const std::string& name) const override;

  // The texts of the header.
  const std::map<std::string, std::string>& metadata() const;
  // FileHash (core/hash.hpp) of the whole file, which reads it.
  std::uint64_t hash() const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

// Whether a file may be a safetensors file, and is no NPZ file: its header begins with a brace.
bool is_safetensors(const RegularFile& file);

// Replaces `path` atomically (core/file.hpp) by a file with these arrays, whose names differ, in
// the order that the format's own library chooses. Tensors may be on any device; texts are an error
// of kind internal.
void write_safetensors(const std::filesystem::path& path, std::span<const NpzEntry> entries,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tasuki

// NPZ files and the headers of their arrays. What an accepted file has, it has again after it was
// written and read; and a file that must end in a hash is only accepted with the right one.
#include <zip.h>

#include <algorithm>
#include <cstdlib>

#include "core/hash.hpp"
#include "fuzz.hpp"
#include "saving/npz.hpp"

using namespace tasuki;

namespace {

// A zip with these entries, intact but for what is in them.
std::string zip_of(fuzz::Input input) {
  if (input.is_at_end()) return "";  // libzip writes no empty archives
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const buffer = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(buffer);
  zip_t* const archive = zip_open_from_source(buffer, ZIP_TRUNCATE, &error);
  fuzz::require(archive != nullptr, "libzip makes no archive");
  constexpr int most_entries = 8;
  for (int i = 0; i < most_entries && !input.is_at_end(); ++i) {
    const std::uint8_t mode = input.number();
    const std::span<const std::byte> contents = input.part();
    zip_source_t* const source = zip_source_buffer(archive, contents.data(), contents.size(), 0);
    const zip_int64_t index =
        zip_file_add(archive, fmt::format("{}.npy", i).c_str(), source, ZIP_FL_ENC_UTF_8);
    fuzz::require(index >= 0, "libzip adds no entry");
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                             mode % 2 == 0 ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
  }
  fuzz::require(zip_close(archive) == 0, "libzip closes no archive");
  std::string text;
  fuzz::require(zip_source_open(buffer) == 0, "libzip reads no archive");
  zip_source_seek(buffer, 0, SEEK_END);
  text.resize(static_cast<std::size_t>(zip_source_tell(buffer)));
  zip_source_seek(buffer, 0, SEEK_SET);
  zip_source_read(buffer, text.data(), text.size());
  zip_source_close(buffer);
  zip_source_free(buffer);
  return text;
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()};
}

bool is_equal(const NpzValue& one, const NpzValue& other) {
  if (one.index() != other.index()) return false;
  if (const auto* text = std::get_if<std::string>(&one))
    return *text == std::get<std::string>(other);
  const auto &left = std::get<Tensor>(one), &right = std::get<Tensor>(other);
  return left.shape() == right.shape() && left.dtype() == right.dtype() &&
         std::ranges::equal(bytes_of(left), bytes_of(right));
}

// All entries of a file.
std::vector<NpzEntry> entries_of(const NpzFile& file) {
  std::vector<NpzEntry> entries;
  for (const std::string& name : file.names()) {
    const std::optional<ArrayType> type = file.find(name);
    fuzz::require(type.has_value(), "an entry that is listed cannot be found");
    if (!type->unreadable.empty()) {
      fuzz::require(!fuzz::accepts([&] { file.read(name); }), "an unreadable entry is read");
      continue;
    }
    entries.push_back({name, file.read(name)});
    if (const auto* tensor = std::get_if<Tensor>(&entries.back().value))
      fuzz::require(tensor->shape() == type->shape && tensor->dtype() == type->dtype,
                    "an array is not what its header says");
  }
  return entries;
}

void check_header(std::span<const std::byte> bytes) {
  const NpyHeader header = parse_npy_header(bytes, "array");
  fuzz::require(header.header_bytes <= std::min(bytes.size(), npy_header_limit),
                "a header is longer than the bytes that it was read from");
  constexpr std::int64_t few = 1 << 16;
  if (!header.dtype || header.shape.count() > few) return;
  const NpzValue array = Tensor::zeros(header.shape, *header.dtype);
  const std::string text = npy_header(array);
  const NpyHeader again = parse_npy_header(std::as_bytes(std::span(text)), "again");
  fuzz::require(again.shape == header.shape && again.dtype == header.dtype &&
                    again.header_bytes == text.size(),
                "a header changes when it is written");
}

// The file that write_npz() makes of these entries.
void check_written(const std::vector<NpzEntry>& entries) {
  static const std::filesystem::path path = [] {
    std::string folder = std::filesystem::temp_directory_path() / "fuzz-XXXXXX";
    fuzz::require(::mkdtemp(folder.data()) != nullptr, "no folder can be made");
    return std::filesystem::path(folder) / "written.npz";
  }();
  write_npz(path, entries);
  const std::vector<NpzEntry> again = entries_of(NpzFile(path, /*require_hash=*/true));
  fuzz::require(std::ranges::equal(entries, again,
                                   [](const NpzEntry& one, const NpzEntry& other) {
                                     return one.name == other.name &&
                                            is_equal(one.value, other.value);
                                   }),
                "a file changes when it is written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  if (mode % 4 == 0) {
    fuzz::accepts([&] { check_header(input.rest()); });
    return 0;
  }
  const std::string contents =
      mode % 4 == 1 ? std::string(fuzz::as_text(input.rest())) : zip_of(input);
  static fuzz::InputFile file;
  file.write(std::as_bytes(std::span(contents)));
  std::vector<NpzEntry> entries;
  const bool is_accepted = fuzz::accepts([&] { entries = entries_of(NpzFile(file.path())); });
  const bool is_snapshot = fuzz::accepts([&] { NpzFile(file.path(), /*require_hash=*/true); });
  fuzz::require(is_accepted || !is_snapshot || mode % 4 == 1,
                "a file is accepted only as snapshot");
  if (is_snapshot) {
    constexpr std::size_t digits = 16;
    constexpr std::size_t mebibyte = 1 << 20;  // more is hashed in pieces
    const auto all = std::as_bytes(std::span(contents));
    fuzz::require(
        all.size() - digits > mebibyte ||
            contents.ends_with(fmt::format("{:016x}", hash_bytes(all.first(all.size() - digits)))),
        "a wrong hash is accepted");
  }
  constexpr std::size_t few = 1 << 16;
  if (is_accepted && !entries.empty() && contents.size() < few) check_written(entries);
  return 0;
}

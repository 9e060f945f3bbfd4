// safetensors files. What an accepted file has, it has again after it was written and read.
#include <algorithm>
#include <cstdlib>

#include "fuzz.hpp"
#include "saving/regular_file.hpp"
#include "saving/safetensors.hpp"

using namespace tasuki;

namespace {

// The arrays that can be read.
std::vector<NpzEntry> entries_of(const SafetensorsFile& file) {
  std::vector<NpzEntry> entries;
  for (const std::string& name : file.names()) {
    const std::optional<ArrayType> type = file.find(name);
    fuzz::require(type.has_value(), "an array that is listed cannot be found");
    NpzEntry entry{name, std::string()};
    const bool is_read = fuzz::accepts([&] { entry.value = file.read(name); });
    if (!is_read) continue;
    const auto& tensor = std::get<Tensor>(entry.value);
    fuzz::require(type->unreadable.empty(), "an unreadable array is read");
    fuzz::require(tensor.shape() == type->shape && tensor.dtype() == type->dtype,
                  "an array is not what its header says");
    entries.push_back(std::move(entry));
  }
  return entries;
}

void check_written(std::vector<NpzEntry> entries,
                   const std::map<std::string, std::string>& metadata) {
  static const std::filesystem::path path = [] {
    std::string folder = std::filesystem::temp_directory_path() / "fuzz-XXXXXX";
    fuzz::require(::mkdtemp(folder.data()) != nullptr, "no folder can be made");
    return std::filesystem::path(folder) / "written.safetensors";
  }();
  write_safetensors(path, entries, metadata);
  const SafetensorsFile file(path);
  fuzz::require(file.metadata() == metadata, "texts change when they are written");
  std::vector<NpzEntry> again = entries_of(file);
  std::ranges::sort(entries, {}, &NpzEntry::name);
  std::ranges::sort(again, {}, &NpzEntry::name);
  fuzz::require(
      std::ranges::equal(entries, again,
                         [](const NpzEntry& one, const NpzEntry& other) {
                           const auto &a = std::get<Tensor>(one.value),
                                      &b = std::get<Tensor>(other.value);
                           return one.name == other.name && a.shape() == b.shape() &&
                                  a.dtype() == b.dtype() &&
                                  (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
                         }),
      "a file changes when it is written");
}

}  // namespace

// Mode 0: a whole file. Mode 1: a header, whose length is right, and the number of its elements.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  std::string contents;
  if (input.number() % 2 == 0) {
    contents = fuzz::as_text(input.rest());
  } else {
    const std::uint16_t elements = input.number<std::uint16_t>();
    const std::string_view header = fuzz::as_text(input.rest());
    const std::uint64_t length = header.size();
    contents.assign(reinterpret_cast<const char*>(&length), sizeof length);
    contents += header;
    for (int i = 0; i < elements; ++i) contents += static_cast<char>(i * 37);
  }
  static fuzz::InputFile file;
  file.write(std::as_bytes(std::span(contents)));
  std::vector<NpzEntry> entries;
  std::map<std::string, std::string> metadata;
  const bool is_accepted = fuzz::accepts([&] {
    const SafetensorsFile opened(file.path());
    entries = entries_of(opened);
    metadata = opened.metadata();
  });
  if (is_accepted) {
    fuzz::require(is_safetensors(RegularFile(file.path())), "an accepted file is not recognised");
    check_written(entries, metadata);
  }
  return 0;
}

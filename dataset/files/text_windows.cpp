#include "dataset/files/text_windows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/named_file.hpp"
#include "dataset/files/input_file.hpp"

namespace tasuki {
namespace {

// Until the text has `most` bytes.
void append_file(std::string& text, const std::filesystem::path& path, std::size_t most) {
  InputFile file(path);
  constexpr std::size_t largest_block = std::size_t{1} << 20;
  while (text.size() < most) {
    const std::size_t before = text.size(), block = std::min(largest_block, most - before);
    text.resize(before + block);
    const std::size_t found =
        file.read_some(reinterpret_cast<std::byte*>(text.data() + before), block);
    text.resize(before + found);
    report_progress();
    if (found < block) return file.check_end();
  }
}

void add_files_below(const std::filesystem::path& folder,
                     std::vector<std::filesystem::path>& files) {
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with('.')) continue;
    const std::filesystem::path path = folder / name;
    std::error_code gone;
    if (std::filesystem::is_directory(std::filesystem::symlink_status(path, gone)))
      add_files_below(path, files);
    else if (std::filesystem::is_regular_file(status_of(path)))
      files.push_back(path);
  }
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  add_files_below(folder, files);
  std::ranges::sort(files);
  return files;
}

class TextWindows final : public Dataset {
 public:
  TextWindows(std::string text, std::int64_t length) : text_(std::move(text)), length_(length) {
    header_.count = (std::ssize(text_) - 1) / length;
    header_.fields = {
        {.name = "x", .shape = {length}, .stored = DType::uint8, .decoded = DType::int32},
        {.name = "t",
         .shape = {length},
         .stored = DType::uint8,
         .decoded = DType::int32,
         .is_target = true,
         .classes = 256}};
  }
  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override { return text_.size(); }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    const std::span<std::byte> to = into.bytes();
    std::memcpy(to.data(), text_.data() + i * length_ + static_cast<std::int64_t>(field),
                to.size());
  }
  FieldArray array(std::size_t field) const override {
    return {.values = reinterpret_cast<const std::byte*>(text_.data()) + field};
  }

 private:
  std::string text_;
  std::int64_t length_;
  DatasetHeader header_;
};

}  // namespace

std::string read_text(const std::filesystem::path& place, std::int64_t most) {
  TASUKI_CHECK(most > 0, "a text of at most {} bytes", most);
  std::string text;
  const auto enough = static_cast<std::size_t>(most);
  if (std::filesystem::is_directory(status_of(place))) {
    for (const std::filesystem::path& path : files_below(place)) {
      if (text.size() == enough) break;
      append_file(text, path, enough);
    }
  } else {
    append_file(text, place, enough);
  }
  if (text.empty()) fail(ErrorKind::data, "{}: expected a text, found no bytes", place.string());
  return text;
}

std::shared_ptr<const Dataset> text_windows(std::string text, std::int64_t length) {
  TASUKI_CHECK(length > 0, "windows of {} bytes", length);
  if (std::ssize(text) <= length)
    fail(ErrorKind::data,
         "a text of {} bytes is too short for windows of {} bytes and the next one", text.size(),
         length);
  return std::make_shared<TextWindows>(std::move(text), length);
}

}  // namespace tasuki

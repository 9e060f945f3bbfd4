#include "tasuki/dataset/image_folder.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/dataset/encoded_images.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

struct ImageFile {
  fs::path path;
  std::int32_t label = 0;
};

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->path().filename().string().starts_with('.')) entries.push_back(entry->path());
  if (error)
    fail(ErrorKind::missing, "{}: expected a folder of images that can be read, found: {}",
         folder.string(), error.message());
  std::ranges::sort(entries);
  return entries;
}

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& entry : sorted_entries(folder))
    if (fs::is_directory(entry)) names.push_back(entry.filename().string());
  if (names.empty())
    fail(ErrorKind::missing, "{}: expected a subfolder with images for each class, found none",
         folder.string());
  return names;
}

fs::path folder_of(const fs::path& folder, DataSplit split) {
  if (split == DataSplit::train) return folder / "train";
  std::error_code ignored;
  for (const char* const name : {"test", "val"})
    if (fs::is_directory(folder / name, ignored)) return folder / name;
  fail(ErrorKind::missing, "{}: expected a folder 'test' or 'val' in it, found neither",
       folder.string());
}

// One file of each class, then the second of each, and so on.
std::vector<ImageFile> list_files(const fs::path& folder, const std::vector<std::string>& classes) {
  std::vector<std::pair<std::size_t, ImageFile>> numbered;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::size_t number = 0;
    for (fs::path& entry : sorted_entries(folder / classes[label]))
      if (is_image_name(entry))
        numbered.push_back({number++, {std::move(entry), static_cast<std::int32_t>(label)}});
    if (number == 0)
      fail(ErrorKind::missing, "{}: expected .jpg, .jpeg or .png files, found none",
           (folder / classes[label]).string());
  }
  std::ranges::stable_sort(numbered, {}, [](const auto& each) { return each.first; });
  std::vector<ImageFile> files;
  files.reserve(numbered.size());
  for (auto& [number, file] : numbered) files.push_back(std::move(file));
  return files;
}

void check_same_classes(const fs::path& folder, const std::vector<std::string>& classes) {
  const std::vector<std::string> found = class_names(folder);
  const auto [expected, other] = std::ranges::mismatch(classes, found);
  if (expected == classes.end() && other == found.end()) return;
  const auto name = [](auto at, const auto& names) {
    return at == names.end() ? std::string("none") : '\'' + *at + '\'';
  };
  fail(ErrorKind::data, "{}: expected a subfolder for each class of the train folder, {}, found {}",
       folder.string(), name(expected, classes), name(other, found));
}

class ImageFolderSource final : public DataSource {
 public:
  ImageFolderSource(std::vector<ImageFile> files, const DatasetHeader& header)
      : DataSource(header), files_(std::move(files)) {}

  // Files that vanish meanwhile are missed when they are read.
  std::size_t stored_bytes() const override {
    std::size_t bytes = 0;
    for (const ImageFile& file :
         std::span(files_).first(static_cast<std::size_t>(header().count))) {
      std::error_code ignored;
      const std::uintmax_t size = fs::file_size(file.path, ignored);
      if (!ignored) bytes += size;
      report_progress();
    }
    return bytes;
  }

 private:
  std::vector<std::byte> next_record(std::int32_t* label) {
    const ImageFile& file = files_[next_++];
    report_progress();
    *label = file.label;
    return pack_image_file(file.path.string(), read_file(file.path));
  }

  void read_next(std::int64_t count, std::byte* values, std::int32_t* labels) override {
    for (; count > 0; --count, values += header().value_bytes())
      decode_image_record(next_record(labels++), header().example_shape[1], values);
  }

  void read_next_block(RecordBlock& block, std::int64_t most, std::size_t target_bytes) override {
    while (block.count() < most && block.values.size() < target_bytes) {
      std::int32_t label = 0;
      const std::vector<std::byte> record = next_record(&label);
      block.add(record, label);
    }
  }

  std::vector<ImageFile> files_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<DataSource> open_image_folder(const fs::path& folder, DataSplit split,
                                              std::int64_t side) {
  TASUKI_CHECK(side > 0, "images of {} x {} pixels", side, side);
  const std::vector<std::string> classes = class_names(folder_of(folder, DataSplit::train));
  const fs::path part = folder_of(folder, split);
  check_same_classes(part, classes);
  std::vector<ImageFile> files = list_files(part, classes);
  const DatasetHeader header{.count = static_cast<std::int64_t>(files.size()),
                             .example_shape = {3, side, side},
                             .classes = static_cast<std::int64_t>(classes.size()),
                             .stored = DType::uint8,
                             .encoded = true};
  return std::make_unique<ImageFolderSource>(std::move(files), header);
}

}  // namespace tasuki

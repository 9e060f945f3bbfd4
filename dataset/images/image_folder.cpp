#include "tasuki/dataset/images/image_folder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/file.hpp"
#include "tasuki/core/host_name.hpp"
#include "tasuki/dataset/images/image.hpp"
#include "tasuki/dataset/images/image_record.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->path().filename().string().starts_with('.')) entries.push_back(entry->path());
  if (error)
    fail(ErrorKind::missing, "{}: expected a readable folder of images, found: {}", folder.string(),
         error.message());
  std::ranges::sort(entries);
  return entries;
}

void check_same_classes(const fs::path& folder, const std::vector<std::string>& classes) {
  const std::vector<std::string> found = image_classes(folder);
  const auto [expected, other] = std::ranges::mismatch(classes, found);
  if (expected == classes.end() && other == found.end()) return;
  const auto name = [](auto at, const auto& names) {
    return at == names.end() ? std::string("none") : '\'' + *at + '\'';
  };
  fail(ErrorKind::data, "{}: expected a subfolder for each class of the train folder, {}, found {}",
       folder.string(), name(expected, classes), name(other, found));
}

// What a file is instead of an image, from its first bytes; empty for an image.
std::string problem_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return error.message();
  // Opening a FIFO would wait for a writer.
  if (!fs::is_regular_file(status)) return "not a regular file";
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::strerror(errno);
  file.read(start.data(), start.size());
  const auto bytes = std::as_bytes(std::span(start)).first(static_cast<std::size_t>(file.gcount()));
  if (bytes.empty()) return "an empty file";
  return starts_image(bytes) ? "" : "something else";
}

class ImageFileSource final : public DataSource {
 public:
  ImageFileSource(std::vector<ImageFile> files, const DatasetHeader& header)
      : DataSource(header), files_(std::move(files)) {}

  // Files that vanish meanwhile are reported when they are read.
  std::size_t stored_bytes() const override {
    std::size_t bytes = DataSource::stored_bytes();
    for (const ImageFile& file : files()) {
      std::error_code ignored;
      const std::uintmax_t size = fs::file_size(file.path, ignored);
      if (!ignored) bytes += size;
      report_progress();
    }
    return bytes;
  }

 private:
  // The files that are read.
  std::span<const ImageFile> files() const {
    return std::span(files_).first(static_cast<std::size_t>(header().count));
  }

  void check_files() override { check_image_files(files()); }

  void read_next(std::span<FieldWriter> example) override {
    const ImageFile& file = files_[next_++];
    report_progress();
    write_image_record(file.path.string(), read_file(file.path), example[0]);
    if (example.size() > 1) example[1].as<std::int32_t>()[0] = file.label;
  }

  std::vector<ImageFile> files_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<ImageFile> list_image_folder(const fs::path& folder,
                                         const std::vector<std::string>& classes) {
  check_same_classes(folder, classes);
  std::vector<std::pair<std::size_t, ImageFile>> numbered;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::size_t number = 0;
    for (fs::path& file : image_files_in(folder / classes[label]))
      numbered.push_back({number++, {std::move(file), static_cast<std::int32_t>(label)}});
    if (number == 0)
      fail(ErrorKind::missing, "{}: expected .jpg, .jpeg or .png files, found none",
           (folder / classes[label]).string());
    report_progress();
  }
  std::ranges::stable_sort(numbered, {}, [](const auto& each) { return each.first; });
  std::vector<ImageFile> files;
  files.reserve(numbered.size());
  for (auto& [number, file] : numbered) files.push_back(std::move(file));
  return files;
}

// In several threads, because disks and servers deliver files sooner when many are requested.
void check_image_files(std::span<const ImageFile> files) {
  constexpr std::size_t most_threads = 16, most_shown = 3;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::map<std::size_t, std::string> problems;  // by the file's position
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      std::string problem = problem_of(files[i].path);
      report_progress();
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex);
      problems.emplace(i, std::move(problem));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(most_threads, files.size()); ++i)
      threads.emplace_back(work);
    work();
  }
  if (problems.empty()) return;
  std::string shown;
  std::size_t left = most_shown;
  for (const auto& [i, problem] : problems) {
    if (left-- == 0) break;
    shown += fmt::format("{}{} ({})", shown.empty() ? "" : ", ", files[i].path.string(), problem);
  }
  fail(ErrorKind::data,
       "expected JPEG or PNG images, found {} among {} files on {} that {} none: {}{}; get {} "
       "again or "
       "remove {}",
       problems.size(), files.size(), host_name(), problems.size() == 1 ? "is" : "are", shown,
       problems.size() > most_shown ? ", ..." : "", problems.size() == 1 ? "it" : "them",
       problems.size() == 1 ? "it" : "them");
}

std::vector<std::string> image_classes(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& entry : sorted_entries(folder))
    if (fs::is_directory(entry)) names.push_back(entry.filename().string());
  if (names.empty())
    fail(ErrorKind::missing, "{}: expected a subfolder with images for each class, found none",
         folder.string());
  return names;
}

fs::path split_folder(const fs::path& folder, DataSplit split) {
  if (split == DataSplit::train) return folder / "train";
  std::error_code ignored;
  for (const char* const name : {"test", "val"})
    if (fs::is_directory(folder / name, ignored)) return folder / name;
  fail(ErrorKind::missing, "{}: expected a folder 'test' or 'val' in it, found neither",
       folder.string());
}

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<fs::path> image_files_in(const fs::path& folder) {
  std::vector<fs::path> files = sorted_entries(folder);
  std::erase_if(files, [](const fs::path& entry) { return !is_image_name(entry); });
  return files;
}

std::unique_ptr<DataSource> open_image_files(std::vector<ImageFile> files, std::int64_t classes,
                                             std::int64_t side) {
  TASUKI_CHECK(side > 0, "images of {} x {} pixels", side, side);
  DatasetHeader header = classification_header(std::ssize(files), {3, side, side}, classes);
  if (classes == 0) header.fields.resize(1);
  header.field("x").is_image_file = true;
  return std::make_unique<ImageFileSource>(std::move(files), header);
}

std::unique_ptr<DataSource> open_image_folder(const fs::path& folder, DataSplit split,
                                              std::int64_t side) {
  const std::vector<std::string> classes = image_classes(split_folder(folder, DataSplit::train));
  const fs::path part = split_folder(folder, split);
  return open_image_files(list_image_folder(part, classes), std::ssize(classes), side);
}

}  // namespace tasuki

#include "dataset/images/image_folder.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "core/activity.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "dataset/images/image_check.hpp"
#include "dataset/images/image_record.hpp"
#include "dataset/images/image_search.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

// The test split may lack some classes' folders, but has no others.
void check_classes(const fs::path& folder, DataSplit split,
                   const std::vector<std::string>& classes) {
  for (const std::string& found : image_classes(folder))
    if (std::ranges::find(classes, found) == classes.end())
      fail(ErrorKind::data,
           "{}: expected subfolders for the classes of the train folder, found '{}', which is "
           "not one of them",
           folder.string(), found);
  for (const std::string& name : classes)
    if (std::error_code ignored;
        split == DataSplit::train && !fs::is_directory(folder / name, ignored))
      fail(ErrorKind::missing, "{}: expected a subfolder for class '{}', found none",
           folder.string(), name);
}

class ImageFileSource final : public DataSource {
 public:
  ImageFileSource(std::vector<ImageFile> files, const DatasetHeader& header, std::string left_out)
      : DataSource(header), files_(std::move(files)), left_out_(std::move(left_out)) {}

  // Files that vanish meanwhile are reported when they are read.
  std::size_t stored_bytes() const override {
    std::size_t bytes = DataSource::stored_bytes();
    for (const ImageFile& file : image_files()) {
      std::error_code ignored;
      const std::uintmax_t size = fs::file_size(file.path, ignored);
      if (!ignored) bytes += size;
      report_progress();
    }
    return bytes;
  }

  std::span<const ImageFile> image_files() const override {
    return std::span(files_).first(static_cast<std::size_t>(header().count));
  }

 private:
  void remove_examples(std::span<const std::int64_t> numbers) override {
    erase_numbered(files_, numbers);
  }

  void check_files() override {
    constexpr std::size_t most_shown = 3;
    if (!left_out_.empty()) log_warning("{}", left_out_);
    fail_if_unreadable(look_at_images(image_files()), header().count, most_shown);
  }

  void read_next(std::span<FieldWriter> example) override {
    const ImageFile& file = files_[next_++];
    report_progress();
    write_image_record(file.path.string(), read_file(file.path), example[0]);
    if (example.size() > 1) example[1].as<std::int32_t>()[0] = file.label;
  }

  std::vector<ImageFile> files_;
  std::string left_out_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<ImageFile> take_in_turn(std::vector<std::vector<ImageFile>> of_class) {
  std::size_t longest = 0, all = 0;
  for (const auto& files : of_class) longest = std::max(longest, files.size()), all += files.size();
  std::vector<ImageFile> in_turn;
  in_turn.reserve(all);
  for (std::size_t number = 0; number < longest; ++number)
    for (auto& files : of_class)
      if (number < files.size()) in_turn.push_back(std::move(files[number]));
  return in_turn;
}

ImageFolderList list_image_folder(const fs::path& folder, DataSplit split,
                                  const std::vector<std::string>& classes) {
  check_classes(folder, split, classes);
  ImageSearch search(folder);
  search.leave_out_own();
  std::vector<std::vector<ImageFile>> of_class(classes.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path of_this = folder / classes[label];
    if (std::error_code ignored; fs::is_directory(of_this, ignored))
      for (fs::path& file : search.images_in(of_this))
        of_class[label].push_back({std::move(file), static_cast<std::int32_t>(label)});
    if (of_class[label].empty() && split == DataSplit::train)
      fail(ErrorKind::missing, "{}: expected .jpg, .jpeg or .png files, found none",
           of_this.string());
  }
  ImageFolderList list{take_in_turn(std::move(of_class)), search.text_of_left_out()};
  if (list.files.empty())
    fail(ErrorKind::missing, "{}: expected .jpg, .jpeg or .png files in its subfolders, found none",
         folder.string());
  return list;
}

std::vector<std::string> image_classes(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : visible_entries(folder))
    if (std::error_code ignored; entry.is_directory(ignored))
      names.push_back(entry.path().filename().string());
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

std::unique_ptr<DataSource> open_image_files(std::vector<ImageFile> files, std::int64_t classes,
                                             const ImageSettings& settings, std::string left_out) {
  const std::int64_t side = settings.side;
  TASUKI_CHECK(side > 0, "images of {} x {} pixels", side, side);
  DatasetHeader header = classification_header(std::ssize(files), {3, side, side}, classes);
  if (classes == 0) header.fields.resize(1);
  Field& x = header.field("x");
  x.is_image_file = true;
  x.ignores_exif = settings.exif == Exif::ignore;
  return std::make_unique<ImageFileSource>(std::move(files), header, std::move(left_out));
}

std::unique_ptr<DataSource> open_image_folder(const fs::path& folder, DataSplit split,
                                              const ImageSettings& settings) {
  const std::vector<std::string> classes = image_classes(split_folder(folder, DataSplit::train));
  ImageFolderList list = list_image_folder(split_folder(folder, split), split, classes);
  return open_image_files(std::move(list.files), std::ssize(classes), settings,
                          std::move(list.left_out));
}

}  // namespace tasuki

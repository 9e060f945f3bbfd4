#include "tools/predict/crops.hpp"

#include <filesystem>
#include <stdexcept>

#include "apps/imagenet/mean_image.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "dataset/catalog.hpp"
#include "program/flags/option_value.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;

// The text of a flag that was given, else empty.
std::string given(const TrainingRun& run, const std::string& flag) {
  const std::string text = run.flag(flag).value_or("");
  return text == "none" || text == "auto" ? "" : text;
}

}  // namespace

std::optional<ImageStreamSettings> middle_crops_of(const TrainingRun& run, std::int64_t side,
                                                   Exif exif) {
  if (run.program != "train_imagenet") return std::nullopt;
  ImageStreamSettings settings{.side = side, .exif = exif, .shorter = usual_shorter_side(side)};
  try {
    if (const std::string shorter = given(run, "resize"); !shorter.empty())
      settings.shorter = program::parse_integer(shorter, {side, 1 << 20});
  } catch (const std::invalid_argument& expected) {
    fail_everywhere(ErrorKind::data, "--resize of the run: expected {}, found '{}'",
                    expected.what(), given(run, "resize"));
  }
  if (const std::string mean = given(run, "mean"); !mean.empty())
    settings.scale.mean_image = read_as_told([&] { return read_mean_image(mean); });
  return settings;
}

std::vector<ImageFile> evaluated_images(const TrainingRun& run) {
  fs::path test = given(run, "val"), train = given(run, "train");
  if (test.empty()) {
    const fs::path folder = find_data_folder("images", given(run, "data"));
    test = split_folder(folder, DataSplit::test);
    train = split_folder(folder, DataSplit::train);
  }
  if (!fs::is_directory(status_of(test))) {
    const ImageList list = read_image_lists(train, test, run.flag("root").value_or(".")).test;
    return list.files({0, list.size()});
  }
  ImageFolderList list = list_image_folder(test, DataSplit::test, image_classes(train));
  if (!list.left_out.empty()) log_warning("{}", list.left_out);
  return std::move(list.files);
}

}  // namespace tasuki::predict

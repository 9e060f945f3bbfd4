#include "predict/crops.hpp"

#include <filesystem>
#include <stdexcept>

#include "imagenet/mean_image.hpp"
#include "tasuki/dataset/catalog.hpp"
#include "tasuki/program/flags/option_value.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;

// The text of a flag that was given, else empty.
std::string given(const TrainingRun& run, const std::string& flag) {
  const std::string text = run.flag(flag).value_or("");
  return text == "none" || text == "auto" ? "" : text;
}

}  // namespace

std::optional<ImageStreamSettings> middle_crops_of(const TrainingRun& run, std::int64_t side) {
  if (run.program != "train_imagenet") return std::nullopt;
  ImageStreamSettings settings{.side = side, .shorter = usual_shorter_side(side)};
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

ImageList evaluated_images(const TrainingRun& run) {
  const std::string test = given(run, "val"), train = given(run, "train");
  if (test.empty()) {
    const fs::path folder = find_data_folder("images", given(run, "data"));
    return list_class_folders(split_folder(folder, DataSplit::train),
                              split_folder(folder, DataSplit::test))
        .test;
  }
  return fs::is_directory(test)
             ? list_class_folders(train, test).test
             : read_image_lists(train, test, run.flag("root").value_or(".")).test;
}

}  // namespace tasuki::predict

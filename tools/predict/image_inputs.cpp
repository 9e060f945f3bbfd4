#include "tools/predict/image_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/imagenet/mean_image.hpp"
#include "core/activity.hpp"
#include "core/file.hpp"
#include "core/log.hpp"
#include "core/named_file.hpp"
#include "dataset/catalog.hpp"
#include "dataset/images/image.hpp"
#include "models/catalog.hpp"
#include "program/flags/option_value.hpp"

namespace tasuki::predict {
namespace {

namespace fs = std::filesystem;

// The text of a flag that was given, else empty.
std::string given(const FinishedRun& run, const std::string& flag) {
  const std::string text = run.flag(flag).value_or("");
  return text == "none" || text == "auto" ? "" : text;
}

}  // namespace

bool takes_middle_crops(const FinishedRun& run, const std::string& network) {
  if (!run.program.empty()) return run.program == "train_imagenet";
  const auto kind = std::ranges::find(model_kinds(), network, &ModelKind::name);
  return kind != model_kinds().end() && kind->is_published;
}

std::optional<ImageStreamSettings> middle_crops_of(const FinishedRun& run,
                                                   const std::string& network, std::int64_t side,
                                                   Exif exif) {
  if (!takes_middle_crops(run, network)) return std::nullopt;
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

std::vector<ImageFile> evaluated_images(const FinishedRun& run) {
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

namespace {

class GreyFiles final : public DataSource {
 public:
  GreyFiles(std::vector<ImageFile> files, const DatasetHeader& header, Exif exif)
      : DataSource(header),
        files_(std::move(files)),
        side_(header.field("x").shape[1]),
        exif_(exif) {}

  std::span<const ImageFile> image_files() const override {
    return std::span(files_).first(static_cast<std::size_t>(header().count));
  }

 private:
  void remove_examples(std::span<const std::int64_t> numbers) override {
    erase_numbered(files_, numbers);
  }

  void read_next(std::span<FieldWriter> example) override {
    const ImageFile& file = files_[next_++];
    report_progress();
    const std::string contents = read_file(file.path);
    const auto pixels = static_cast<std::size_t>(side_ * side_);
    colours_.resize(3 * pixels);
    resize_and_crop(
        decode_image(std::as_bytes(std::span(contents)), file.path.string(), side_, exif_), side_,
        colours_.data());
    const std::uint8_t *red = colours_.data(), *green = red + pixels, *blue = green + pixels;
    const std::span<std::uint8_t> grey = example[0].as<std::uint8_t>();
    for (std::size_t i = 0; i < pixels; ++i)
      grey[i] =
          static_cast<std::uint8_t>((299 * red[i] + 587 * green[i] + 114 * blue[i] + 500) / 1000);
    if (example.size() > 1) example[1].as<std::int32_t>()[0] = file.label;
  }

  std::vector<ImageFile> files_;
  std::int64_t side_;
  Exif exif_;
  std::vector<std::uint8_t> colours_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<DataSource> open_grey_files(std::vector<ImageFile> files, std::int64_t classes,
                                            const ImageSettings& settings) {
  const std::int64_t side = settings.side;
  DatasetHeader header = classification_header(std::ssize(files), {1, side, side}, classes);
  if (classes == 0) header.fields.resize(1);
  return std::make_unique<GreyFiles>(std::move(files), header, settings.exif);
}

}  // namespace tasuki::predict

#include "tools/predict/grey_images.hpp"

#include <span>
#include <string>
#include <utility>

#include "core/activity.hpp"
#include "core/file.hpp"
#include "dataset/images/image.hpp"

namespace tasuki::predict {
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

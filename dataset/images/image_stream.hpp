// Images that each rank reads from its disk when a batch needs them, again in every epoch: for data
// larger than memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/range.hpp"
#include "dataset/dataset.hpp"
#include "dataset/images/exif.hpp"
#include "dataset/images/image_list.hpp"
#include "dataset/images/image_view.hpp"
#include "dataset/transform.hpp"

namespace tasuki {

// (x - mean) / deviation, for each of red, green and blue, with pixels from 0 to 1. The default is
// ImageNet's, which torchvision's models expect.
struct PixelScale {
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
  // A mean image, 3 x H x W float32 with pixels from 0 to 255 (Chainer's compute_mean.py): its
  // middle is subtracted in place of `mean`. At least as large as the images. Undefined: none.
  Tensor mean_image = {};
};

struct ImageStreamSettings {
  std::int64_t side = 224;  // examples are 3 x side x side
  PixelScale scale = {};
  Exif exif = Exif::apply;
  // Training: a random crop, mirrored or not; a function of (seed, epoch, example). Else the middle
  // of the image, whose shorter side is scaled to `shorter`.
  bool is_random = false;
  CropRange range = {};
  std::uint64_t seed = 0;
  std::int64_t shorter = 256;
};

// The shorter side of the scaled image for crops of this size: 256 for 224 to 256 pixels, as usual,
// and about the same ratio otherwise.
constexpr std::int64_t usual_shorter_side(std::int64_t side) {
  return side >= 224 && side <= 256 ? 256 : side * 8 / 7;
}

// The transform that turns an image file's record (image_record.hpp) into an example.
Transform create_view_transform(const ImageStreamSettings& settings);

// Fields "x", float32, and "t", the label. Examples are read and decoded in the threads that read
// batches; a file that cannot be read or is not an image is an error that names it. take_share()
// deals it to ranks; it cannot be scattered. Thread-safe.
class ImageStream final : public Dataset {
 public:
  ImageStream(ImageList list, std::int64_t classes, const ImageStreamSettings& settings);

  // Checks the files of these examples like DataSource::check.
  void check(Range examples) const;
  const ImageList& list() const { return list_; }
  // The data set without the examples of these ascending numbers.
  std::shared_ptr<const ImageStream> without(std::span<const std::int64_t> numbers) const;

  const DatasetHeader& header() const override { return header_; }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override;
  FieldArray array(std::size_t field) const override;
  const Transform* transform(std::size_t field) const override;

 private:
  ImageList list_;
  std::filesystem::path base_;  // of its names that are relative
  DatasetHeader header_;
  Transform transform_;
};

}  // namespace tasuki

// Images that each rank reads from its disk when a batch needs them, in every epoch anew: for data
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

// (x - mean) / deviation, for each of red, green and blue, with pixels from 0 to 1. The default:
// ImageNet's, as torchvision's models expect it.
struct PixelScale {
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
  // 3 x H x W float32 of pixels from 0 to 255 (Chainer's compute_mean.py): its middle is subtracted
  // in place of `mean`. At least as large as the images. Undefined: there is none.
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

// Of the whole image, for crops of this size: 256 for 224 to 256 pixels, as usual, and about the
// same ratio for others.
constexpr std::int64_t usual_shorter_side(std::int64_t side) {
  return side >= 224 && side <= 256 ? 256 : side * 8 / 7;
}

// What makes an example of a record of an image file (image_record.hpp).
Transform create_view_transform(const ImageStreamSettings& settings);

// Fields "x", float32, and "t", the label. Examples are read and decoded in the threads that read
// batches; a file that cannot be read or is no image is an error that names it. Can be dealt with
// take_share() and cannot be scattered. Thread-safe.
class ImageStream final : public Dataset {
 public:
  ImageStream(ImageList list, std::int64_t classes, const ImageStreamSettings& settings);

  // Looks at the files of these examples, as DataSource::check does.
  void check(Range examples) const;
  const ImageList& list() const { return list_; }
  // The same without these examples, whose numbers ascend.
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

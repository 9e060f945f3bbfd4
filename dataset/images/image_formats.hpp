// The formats behind decode_image (image.hpp), one file each.
#pragma once

#include "dataset/images/image.hpp"
#include "dataset/images/image_view.hpp"
#include "dataset/images/resample.hpp"

namespace tasuki {

// Larger images would need gigabytes.
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 28;

// Decode images as stored, whatever EXIF data say:
Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  std::int64_t shortest_side);
// The part of a JPEG that the chosen view shows, perhaps reduced: `view` then refers to the reduced
// image.
ImagePart decode_jpeg_part(std::span<const std::byte> file, const std::string& name,
                           const ChooseView& choose, ImageView& view);
Image decode_png(std::span<const std::byte> file, const std::string& name);

// "cat/7.jpg: expected a JPEG image, found damage: Premature end of JPEG file; ..."
[[noreturn]] void fail_on_image(const std::string& name, const char* format,
                                std::string_view found);

// Held while an image is decoded: all threads together decode at most most_pixels at once.
class PixelsUnderWay {
 public:
  // Throws an error for an image of more than most_pixels; otherwise waits until there is room for
  // it.
  PixelsUnderWay(const std::string& name, std::int64_t height, std::int64_t width);
  PixelsUnderWay(const PixelsUnderWay&) = delete;
  PixelsUnderWay& operator=(const PixelsUnderWay&) = delete;
  ~PixelsUnderWay();

 private:
  std::int64_t pixels_;
};

}  // namespace tasuki

// Image files: JPEG (libjpeg-turbo) and PNG (libpng), decoded from memory, resized and cropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "dataset/images/exif.hpp"
#include "dataset/images/image_view.hpp"

namespace tasuki {

// Rows of red, green and blue bytes.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // height x width x 3
  bool lacks_end = false;            // the file's end is missing, but no pixels
};

// Thrown by decode_image for files that are not images or cannot be decoded.
class ImageError : public Error {
 public:
  // "x.jpg: expected a JPEG image, found damage: ...; get the file again or remove it".
  ImageError(const std::string& name, std::string_view expected, std::string found,
             std::string_view advice = "get the file again or remove it");
  const std::string& what_was_found() const { return found_; }

 private:
  std::string found_;
};

// For decode_image: no reduction.
inline constexpr std::int64_t whole_image = std::numeric_limits<std::int64_t>::max();

// Whether a file that starts with these bytes (8, or all of it) is a JPEG or PNG image.
bool starts_image(std::span<const std::byte> start);

// Decodes a file's contents, whose first bytes give the format, and rotates the image as its EXIF
// orientation says. Grey values, palettes and CMYK become RGB; 16-bit channels keep their upper 8
// bits; gamma and transparency are ignored. A JPEG much larger than `shortest_side` requires is
// decoded at 1/2, 1/4 or 1/8 of its size, never below that side. Contents that are damaged or lack
// pixels, images of more than 2^28 pixels, and other formats are an error of kind data, one line
// that begins with `name`. If only the file's end is missing or damaged, Image::lacks_end is set.
// Thread-safe.
Image decode_image(std::span<const std::byte> file, const std::string& name,
                   std::int64_t shortest_side = whole_image, Exif exif = Exif::apply);

// Decodes the part of the rotated image that a view shows, and resamples it: pixels as in
// resample.hpp. Only the needed rows and columns of a JPEG are decoded, at 1/2, 1/4 or 1/8 of their
// size if the view shrinks them to half of that or less. Throws the errors of decode_image, except
// for damage beyond the needed rows, which is not seen. Returns Image::lacks_end, false if the end
// was not read. Thread-safe.
bool decode_view(std::span<const std::byte> file, const std::string& name, const ChooseView& choose,
                 std::vector<std::uint32_t>& pixels, Exif exif = Exif::apply);

// Scales the image so that its shorter side is `side`, and writes the square in the middle, channel
// after channel (3 x side x side). Bilinear; when an image shrinks, a pixel is the mean, weighted
// by distance, over the pixels that it replaces. An image of that size is copied unchanged.
void resize_and_crop(const Image& image, std::int64_t side, std::uint8_t* planes);

}  // namespace tasuki

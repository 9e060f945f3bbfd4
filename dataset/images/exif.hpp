// Orientation: how the camera was held, according to EXIF data in JPEG and PNG files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataset/images/image_view.hpp"

namespace tasuki {

// Whether images are rotated as their EXIF orientation says, as viewers and browsers do, or taken
// as stored, the default of Pillow and torchvision.
enum class Exif : std::uint8_t { apply, ignore };

// How to make the shown image from the stored one: reverse rows or columns, then perhaps exchange
// rows and columns.
struct Orientation {
  bool reverses_rows = false, reverses_columns = false, transposes = false;
  bool is_as_stored() const { return !reverses_rows && !reverses_columns && !transposes; }
  friend bool operator==(const Orientation&, const Orientation&) = default;
};

// For EXIF's numbers 1 to 8; any other number means as stored.
Orientation orientation_of(std::uint32_t exif_number);

// Reads a JPEG file's first APP1 segment with EXIF data, or a PNG file's eXIf chunk. As stored if
// there is none, if it cannot be understood, and for other files; never an error.
Orientation find_orientation(std::span<const std::byte> file);

// The view of the stored image (height x width pixels) that has the same pixels as `shown` in
// another order. `shown` is not mirrored.
ImageView view_of_stored(const ImageView& shown, const Orientation& orientation,
                         std::int64_t height, std::int64_t width);

// Writes the shown image. `from`: height x width pixels of this many bytes.
template <std::size_t pixel_bytes>
void turn(const std::uint8_t* from, std::int64_t height, std::int64_t width,
          const Orientation& orientation, std::uint8_t* to);

extern template void turn<3>(const std::uint8_t*, std::int64_t, std::int64_t, const Orientation&,
                             std::uint8_t*);
extern template void turn<4>(const std::uint8_t*, std::int64_t, std::int64_t, const Orientation&,
                             std::uint8_t*);

}  // namespace tasuki

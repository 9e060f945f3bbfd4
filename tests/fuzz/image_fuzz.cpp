// JPEG and PNG files. An accepted image has as many pixels as its sides say, is the same after it
// was written as PNG and read again, and can be decoded reduced and in part as well. EXIF data, of
// which any bytes may follow, turn it without changing its pixels.
#include "dataset/images/image.hpp"
#include "dataset/images/image_formats.hpp"
#include "dataset/images/png_file.hpp"
#include "fuzz.hpp"

using namespace tasuki;

namespace {

bool is_whole(const Image& image) {
  return image.height > 0 && image.width > 0 && image.height * image.width <= most_pixels &&
         std::ssize(image.pixels) == image.height * image.width * 3;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::int64_t side = 1 + input.number();
  const auto seed = input.number<std::uint16_t>();
  const std::span<const std::byte> file = input.rest();

  find_orientation(file);  // also in data that are not an image
  Image image;
  if (!fuzz::accepts([&] { image = decode_image(file, "image"); })) return 0;
  fuzz::require(is_whole(image), "an image has other pixels than its sides say");
  fuzz::require(starts_image(file.first(std::min<std::size_t>(file.size(), 8))),
                "an image is not recognised by its first bytes");
  constexpr std::size_t enough = 1 << 20;  // what follows would take too long for larger ones
  if (image.pixels.size() > enough) return 0;

  const std::string png = encode_png(image);
  const Image again = decode_image(std::as_bytes(std::span(png)), "again");
  fuzz::require(
      again.height == image.height && again.width == image.width && again.pixels == image.pixels,
      "an image changes when it is written");

  const Image reduced = decode_image(file, "reduced", side);
  fuzz::require(is_whole(reduced) && std::min(reduced.height, reduced.width) >=
                                         std::min(side, std::min(image.height, image.width)),
                "an image is reduced too much");
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * side * side));
  resize_and_crop(reduced, side, planes.data());

  const Image stored = decode_image(file, "stored", whole_image, Exif::ignore);
  const Orientation orientation = find_orientation(file);
  fuzz::require((orientation.transposes ? stored.width : stored.height) == image.height &&
                    stored.pixels.size() == image.pixels.size(),
                "an image has another size when it is turned");
  fuzz::require(stored.pixels == image.pixels || !orientation.is_as_stored(),
                "an image is turned without reason");

  std::vector<std::uint32_t> pixels;
  decode_view(
      file, "view",
      [&](std::int64_t height, std::int64_t width) {
        return random_crop(height, width, side, {}, true, RandomStream(seed));
      },
      pixels);
  fuzz::require(std::ssize(pixels) == side * side, "a crop has another size than asked for");
  return 0;
}

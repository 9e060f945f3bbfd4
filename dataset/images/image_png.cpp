// libpng reports errors by calling back; they become exceptions by longjmp, which jumps over C code
// only.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "core/error.hpp"
#include "dataset/images/image_formats.hpp"

namespace tasuki {
namespace {

struct PngDecoder {
  explicit PngDecoder(std::span<const std::byte> file) : rest(file) {}
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;  // what was not read yet
  std::string message;              // of the last error
};

[[noreturn]] void give_up(png_structp png, png_const_charp message) {
  static_cast<PngDecoder*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

// For errors in chunks that are not needed, or that are understood all the same.
void pass_over(png_structp /*png*/, png_const_charp /*warning*/) {}

void take(png_structp png, png_bytep to, std::size_t count) {
  PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder.rest.size()) png_error(png, "the file ends early");
  std::memcpy(to, decoder.rest.data(), count);
  decoder.rest = decoder.rest.subspan(count);
}

// The steps of decoding; false if libpng failed. No object with a destructor may be here, because
// longjmp would skip it. First the size of the image:
bool read_header(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, take);
  // Of known chunks only IHDR, PLTE, tRNS, IDAT and IEND are read: no gamma (gAMA, sRGB, iCCP), no
  // texts. Transparency is dropped later, together with the alpha channel (choose_rgb).
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  // Only the product of the sides is limited.
  png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(decoder.png, decoder.info);
  return true;
}

// As Pillow converts to RGB, except that it clips grey values of 16 bits.
bool choose_rgb(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_expand(decoder.png);       // palettes, and grey values of less than 8 bits
  png_set_strip_16(decoder.png);     // the upper 8 bits
  png_set_strip_alpha(decoder.png);  // pixels keep their colours whatever their transparency
  png_set_gray_to_rgb(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_rows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  return true;
}

bool read_end(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_end(decoder.png, nullptr);
  return true;
}

}  // namespace

Image decode_png(std::span<const std::byte> file, const std::string& name) {
  PngDecoder decoder(file);
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, give_up, pass_over);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
  const auto check = [&](bool done) {
    if (!done) fail_on_image(name, "PNG", decoder.message);
  };
  check(read_header(decoder));
  Image image{png_get_image_height(decoder.png, decoder.info),
              png_get_image_width(decoder.png, decoder.info),
              {}};
  const PixelsUnderWay under_way(name, image.height, image.width);
  check(choose_rgb(decoder));
  const auto row_bytes = static_cast<std::size_t>(image.width * 3);
  TASUKI_CHECK(png_get_rowbytes(decoder.png, decoder.info) == row_bytes,
               "libpng makes {} bytes of a row of {} pixels",
               png_get_rowbytes(decoder.png, decoder.info), image.width);
  image.pixels.resize(static_cast<std::size_t>(image.height) * row_bytes);
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * row_bytes;
  check(read_rows(decoder, rows.data()));
  image.lacks_end = !read_end(decoder);
  return image;
}

}  // namespace tasuki

// libjpeg reports errors by calling back; they become exceptions by longjmp, which jumps over C
// code only.
#include <cstdio>  // jpeglib.h needs it

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <memory>

#include "tasuki/core/error.hpp"
#include "tasuki/dataset/images/image_formats.hpp"

namespace tasuki {
namespace {

struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

Decoder& decoder_of(j_common_ptr info) {
  return *static_cast<Decoder*>(info->client_data);
}

[[noreturn]] void give_up(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message.data());
  std::longjmp(decoder.on_error, 1);
}

// libjpeg only warns about a file that ends early or whose data make no sense, and fills the rest
// with grey.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_MUST_RESYNC)
    give_up(info);
}

// From a printer's four inks; Adobe's programs store 255 - ink.
void cmyk_to_rgb(const JSAMPLE* inks, std::int64_t count, bool inverted, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < count; ++i, inks += 4, rgb += 3) {
    const int black = inverted ? inks[3] : 255 - inks[3];
    for (int c = 0; c < 3; ++c)
      rgb[c] = static_cast<std::uint8_t>((inverted ? inks[c] : 255 - inks[c]) * black / 255);
  }
}

// The largest of libjpeg's reductions that keeps the shorter side long enough.
unsigned reduction_for(const jpeg_decompress_struct& info, std::int64_t shortest_side) {
  unsigned reduction = 8;
  while (reduction > 1 && std::min(info.image_width, info.image_height) / reduction <
                              static_cast<std::uint64_t>(shortest_side))
    reduction /= 2;
  return reduction;
}

// The size of the result, then its pixels. False if libjpeg failed. No object with a destructor may
// be here, because longjmp would skip it.
bool start(Decoder& decoder, std::span<const std::byte> file, std::int64_t shortest_side) {
  if (setjmp(decoder.on_error) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&decoder.info, TRUE);
  if (std::max(decoder.info.image_width, decoder.info.image_height) > largest_image_side)
    ERREXIT1(&decoder.info, JERR_IMAGE_TOO_BIG, static_cast<int>(largest_image_side));
  const bool inks =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  decoder.info.scale_num = 1;
  decoder.info.scale_denom = reduction_for(decoder.info, shortest_side);
  jpeg_start_decompress(&decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, Image& image, std::vector<JSAMPLE>& row) {
  if (setjmp(decoder.on_error) != 0) return false;
  while (decoder.info.output_scanline < decoder.info.output_height) {
    std::uint8_t* const rgb = image.pixels.data() + decoder.info.output_scanline * image.width * 3;
    JSAMPROW to = row.empty() ? rgb : row.data();
    jpeg_read_scanlines(&decoder.info, &to, 1);
    if (!row.empty()) cmyk_to_rgb(row.data(), image.width, decoder.info.saw_Adobe_marker != 0, rgb);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  std::int64_t shortest_side) {
  Decoder decoder;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = give_up;
  decoder.errors.emit_message = on_message;
  const std::unique_ptr<jpeg_decompress_struct, void (*)(jpeg_decompress_struct*)> owner(
      &decoder.info, [](jpeg_decompress_struct* info) { jpeg_destroy_decompress(info); });
  const auto check = [&](bool done) {
    if (!done) fail_on_image(name, "JPEG", decoder.message.data());
  };
  check(start(decoder, file, shortest_side));
  Image image{decoder.info.output_height, decoder.info.output_width, {}};
  image.pixels.resize(static_cast<std::size_t>(image.height * image.width * 3));
  std::vector<JSAMPLE> inks;
  if (decoder.info.out_color_space == JCS_CMYK)
    inks.resize(static_cast<std::size_t>(image.width * 4));
  check(read_rows(decoder, image, inks));
  return image;
}

}  // namespace tasuki

// libjpeg reports errors by calling back; they become exceptions by longjmp, which jumps over C
// code only.
#include <cstdio>  // jpeglib.h needs it

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <optional>

#include "core/error.hpp"
#include "dataset/images/image_formats.hpp"

namespace tasuki {
namespace {

struct JpegDecoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool is_at_end = false;  // of the file, without its end marker

  JpegDecoder() = default;
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
};

JpegDecoder& decoder_of(j_common_ptr info) {
  return *static_cast<JpegDecoder*>(info->client_data);
}

[[noreturn]] void give_up(j_common_ptr info) {
  JpegDecoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message.data());
  std::longjmp(decoder.on_error, 1);
}

// libjpeg only warns about a file that ends early or whose data make no sense, and fills the rest
// with grey.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF) decoder_of(info).is_at_end = true;
  if (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC)
    give_up(info);
}

// Whether a file without its end marker also lacks scans after the last one that was read. libjpeg
// reports missing pixels within a scan, except with arithmetic coding.
bool lacks_pixels(const jpeg_decompress_struct& info) {
  if (info.arith_code) return true;
  for (int component = 0; component < info.num_components; ++component) {
    if (info.comp_info[component].quant_table == nullptr) return true;  // no scan has it
    if (!info.progressive_mode) continue;
    const int* const missing_bits = info.coef_bits[component];
    if (!std::all_of(missing_bits, missing_bits + DCTSIZE2, [](int bits) { return bits == 0; }))
      return true;
  }
  return false;
}

// From CMYK, stored as 255 - ink, with Pillow's rounding. Adobe's programs store inks inverted, and
// files without Adobe's marker are assumed to do so, too.
void cmyk_to_rgb(const JSAMPLE* inks, std::int64_t count, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < count; ++i, inks += 4, rgb += 3) {
    const int black = inks[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - inks[c]) * black + 128;
      rgb[c] = static_cast<std::uint8_t>(black - ((product >> 8) + product) / 256);
    }
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

// The largest reduction after which the view still shrinks the image to a half or less; the
// difference from shrinking by the view alone is then invisible.
unsigned reduction_for(const ImageView& view) {
  constexpr double still = 2;
  const double step = std::min(view.rows.step, view.columns.step);
  unsigned reduction = 8;
  while (reduction > 1 && step < still * reduction) reduction /= 2;
  return reduction;
}

// The same view of an axis that has `now` instead of `before` pixels.
void rescale(ViewedAxis& axis, std::int64_t before, std::int64_t now) {
  if (now == before) return;
  const double factor = static_cast<double>(now) / static_cast<double>(before);
  axis.begin *= factor;
  axis.step *= factor;
  axis.low = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.low) * factor));
  axis.high =
      std::min(now, static_cast<std::int64_t>(std::ceil(static_cast<double>(axis.high) * factor)));
}

// The steps of decoding; false if libjpeg failed. No object with a destructor may be here, because
// longjmp would skip it. First the size of the image:
bool read_header(JpegDecoder& decoder, std::span<const std::byte> file) {
  if (setjmp(decoder.on_error) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&decoder.info, TRUE);
  const bool inks =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  return true;
}

// The size of the reduced image.
bool start(JpegDecoder& decoder, unsigned reduction) {
  if (setjmp(decoder.on_error) != 0) return false;
  decoder.info.scale_num = 1;
  decoder.info.scale_denom = reduction;
  jpeg_start_decompress(&decoder.info);
  return true;
}

// Columns [left, left + width), or some more: libjpeg decodes whole blocks.
bool crop_columns(JpegDecoder& decoder, JDIMENSION& left, JDIMENSION& width) {
  if (setjmp(decoder.on_error) != 0) return false;
  jpeg_crop_scanline(&decoder.info, &left, &width);
  return true;
}

// Rows from `top` on, as many as the image has.
bool read_rows(JpegDecoder& decoder, Image& image, std::int64_t top, std::vector<JSAMPLE>& row) {
  if (setjmp(decoder.on_error) != 0) return false;
  if (top > 0) jpeg_skip_scanlines(&decoder.info, static_cast<JDIMENSION>(top));
  const std::int64_t end = top + image.height;
  while (decoder.info.output_scanline < end) {
    const std::int64_t y = decoder.info.output_scanline - top;
    std::uint8_t* const rgb = image.pixels.data() + y * image.width * 3;
    JSAMPROW to = row.empty() ? rgb : row.data();
    jpeg_read_scanlines(&decoder.info, &to, 1);
    if (!row.empty()) cmyk_to_rgb(row.data(), image.width, rgb);
  }
  if (decoder.is_at_end && lacks_pixels(decoder.info)) ERREXIT(&decoder.info, JERR_INPUT_EOF);
  // Data after the last row are not read unless needed.
  if (end == decoder.info.output_height) jpeg_finish_decompress(&decoder.info);
  return true;
}

class JpegFile {
 public:
  JpegFile(std::span<const std::byte> file, const std::string& name) : name_(name) {
    decoder_.info.err = jpeg_std_error(&decoder_.errors);
    decoder_.info.client_data = &decoder_;
    decoder_.errors.error_exit = give_up;
    decoder_.errors.emit_message = on_message;
    check(read_header(decoder_, file));
    under_way_.emplace(name, decoder_.info.image_height, decoder_.info.image_width);
  }

  JpegDecoder& decoder() { return decoder_; }
  void check(bool done) const {
    if (!done) fail_on_image(name_, "JPEG", decoder_.message.data());
  }
  // After start() and crop_columns().
  Image read(std::int64_t top, std::int64_t height) {
    const jpeg_decompress_struct& info = decoder_.info;
    Image image{height, info.output_width, {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * 3));
    std::vector<JSAMPLE> inks;
    if (info.out_color_space == JCS_CMYK) inks.resize(static_cast<std::size_t>(image.width * 4));
    check(read_rows(decoder_, image, top, inks));
    image.lacks_end = decoder_.is_at_end;
    return image;
  }

 private:
  JpegDecoder decoder_;
  std::optional<PixelsUnderWay> under_way_;
  const std::string& name_;
};

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  std::int64_t shortest_side) {
  JpegFile jpeg(file, name);
  jpeg.check(start(jpeg.decoder(), reduction_for(jpeg.decoder().info, shortest_side)));
  return jpeg.read(0, jpeg.decoder().info.output_height);
}

ImagePart decode_jpeg_part(std::span<const std::byte> file, const std::string& name,
                           const ChooseView& choose, ImageView& view) {
  JpegFile jpeg(file, name);
  const jpeg_decompress_struct& info = jpeg.decoder().info;
  const std::int64_t height = info.image_height, width = info.image_width;
  view = choose(height, width);
  jpeg.check(start(jpeg.decoder(), reduction_for(view)));
  rescale(view.rows, height, info.output_height);
  rescale(view.columns, width, info.output_width);

  const Range rows = pixels_for(view.rows), columns = pixels_for(view.columns);
  // libjpeg interpolates colours from neighbouring pixels, which are missing at the edge of the
  // decoded part.
  constexpr std::int64_t margin = 2;
  auto left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, columns.begin - margin));
  auto count = static_cast<JDIMENSION>(
      std::min<std::int64_t>(info.output_width, columns.end + margin) - left);
  jpeg.check(crop_columns(jpeg.decoder(), left, count));
  return {jpeg.read(rows.begin, rows.size()), rows.begin, left};
}

}  // namespace tasuki

#include "tensor/image_transform.hpp"

#include <algorithm>
#include <cmath>

#include "core/hash.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

constexpr float white = 255;

// The part of the image that is in the crop, and its place in the result.
struct Window {
  std::int64_t height, width;  // of the image
  bool mirrored;               // the crop is read from its right end
  std::int64_t top, bottom;    // rows of the result that are not padding
  std::int64_t left, right;    // columns likewise
  std::int64_t source;         // the first pixel of them

  Window(std::int64_t rows, std::int64_t columns, const ImageDraw& draw)
      : height(rows),
        width(columns),
        mirrored(draw.mirrored),
        top(std::max<std::int64_t>(0, -draw.down)),
        bottom(std::min(height, height - draw.down)),
        left(std::max<std::int64_t>(0, mirrored ? draw.right : -draw.right)),
        right(left + width - std::abs(draw.right)),
        source((top + draw.down) * width + std::max<std::int64_t>(0, draw.right)) {}
};

TASUKI_VECTORIZE
float window_sum(const std::uint8_t* pixels, const Window& window) {
  std::int64_t sum = 0;
  const std::int64_t count = window.right - window.left;
  pixels += window.source;
  for (std::int64_t y = window.top; y < window.bottom; ++y, pixels += window.width) {
    std::uint32_t row = 0;
    for (std::int64_t x = 0; x < count; ++x) row += pixels[x];
    sum += row;
  }
  return static_cast<float>(sum);
}

// One channel: scale * pixel + offset, clipped to 0 .. 255.
TASUKI_VECTORIZE
void place_channel(const std::uint8_t* pixels, const Window& window, float scale, float offset,
                   float* to) {
  const auto adjusted = [=](float pixel) {
    const float value = pixel * scale + offset;
    return value < 0 ? 0.0f : value > white ? white : value;
  };
  const float padding = adjusted(0);
  const std::int64_t width = window.width, left = window.left, right = window.right;
  const std::int64_t last = right - left - 1;
  std::fill_n(to, window.top * width, padding);
  to += window.top * width;
  pixels += window.source;
  for (std::int64_t y = window.top; y < window.bottom; ++y) {
    for (std::int64_t x = 0; x < left; ++x) to[x] = padding;
    float* const inside = to + left;
    if (window.mirrored)
      for (std::int64_t x = 0; x <= last; ++x) inside[x] = adjusted(pixels[last - x]);
    else
      for (std::int64_t x = 0; x <= last; ++x) inside[x] = adjusted(pixels[x]);
    for (std::int64_t x = right; x < width; ++x) to[x] = padding;
    to += width;
    pixels += width;
  }
  std::fill_n(to, (window.height - window.bottom) * width, padding);
}

// Sums in a fixed number of lanes, so that the bits do not depend on the vectors' width.
constexpr int lanes = 16;

float sum_of_lanes(const float (&sums)[lanes]) {
  double sum = 0;
  for (const float part : sums) sum += static_cast<double>(part);
  return static_cast<float>(sum);
}

TASUKI_VECTORIZE
float sum_of(const float* values, std::int64_t count) {
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += values[i + lane];
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += values[i];
  return sum_of_lanes(sums);
}

TASUKI_VECTORIZE
float squares_around(float mean, const float* values, std::int64_t count) {
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const float difference = values[i + lane] - mean;
      sums[lane] += difference * difference;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += (values[i] - mean) * (values[i] - mean);
  return sum_of_lanes(sums);
}

TASUKI_VECTORIZE
void shift_and_scale(float* values, std::int64_t count, float shift, float factor) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = (values[i] - shift) * factor;
}

TASUKI_VECTORIZE
void divide_by_white(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] /= white;
}

void standardize_row(float* values, std::int64_t count) {
  const auto n = static_cast<float>(count);
  const float mean = sum_of(values, count) / n;
  const float deviation = std::sqrt(squares_around(mean, values, count) / n);
  shift_and_scale(values, count, mean, 1 / std::max(deviation, 1 / std::sqrt(n)));
}

}  // namespace

const ImageStreams& image_streams() {
  static const ImageStreams streams{hash_text("crop"), hash_text("flip"), hash_text("brightness"),
                                    hash_text("contrast")};
  return streams;
}

void transform_image(const ImageTransform& settings, const ImageDraw& draw, const Shape& shape,
                     const std::uint8_t* pixels, float* destination) {
  const std::int64_t channels = shape[0], height = shape[1], width = shape[2];
  const Window window(height, width, draw);
  const std::int64_t area = height * width;
  for (std::int64_t c = 0; c < channels; ++c, pixels += area) {
    // contrast * (x - mean) + mean, where x and its mean include the brightness.
    const float mean =
        draw.contrast != 1 ? window_sum(pixels, window) / static_cast<float>(area) : 0;
    const float offset = mean - draw.contrast * mean + draw.brightness;
    place_channel(pixels, window, draw.contrast, offset, destination + c * area);
  }
  if (settings.standardize)
    standardize_row(destination, channels * area);
  else
    divide_by_white(destination, channels * area);
}

}  // namespace tasuki

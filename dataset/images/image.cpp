#include "tasuki/dataset/images/image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tasuki/core/error.hpp"
#include "tasuki/dataset/images/image_formats.hpp"

namespace tasuki {
namespace {

// The weights of the source pixels that make one pixel of the result along an axis.
struct Tap {
  std::int64_t first = 0;
  std::vector<float> weights;
};

// For `side` results from `length` pixels, of which the middle `used` (a real number) are shown:
// triangles as wide as the step from one result to the next, but no narrower than two pixels.
std::vector<Tap> taps_for(std::int64_t length, double used, std::int64_t side) {
  const double step = used / static_cast<double>(side), reach = std::max(1.0, step);
  const double begin = (static_cast<double>(length) - used) / 2;
  std::vector<Tap> taps(static_cast<std::size_t>(side));
  for (std::int64_t i = 0; i < side; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * step - 0.5;
    const auto lowest = static_cast<std::int64_t>(std::floor(center - reach)) + 1;
    const auto highest = static_cast<std::int64_t>(std::ceil(center + reach)) - 1;
    Tap& tap = taps[static_cast<std::size_t>(i)];
    tap.first = std::clamp<std::int64_t>(lowest, 0, length - 1);
    const std::int64_t last = std::clamp<std::int64_t>(highest, tap.first, length - 1);
    double sum = 0;
    for (std::int64_t at = tap.first; at <= last; ++at) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(at) - center) / reach);
      tap.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    // Beyond the edges there are no pixels, so they do not count.
    if (sum > 0)
      for (float& weight : tap.weights) weight /= static_cast<float>(sum);
    else
      tap.weights.assign(1, 1);
  }
  return taps;
}

bool begins_with(std::span<const std::byte> file, std::initializer_list<int> bytes) {
  return file.size() >= bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), file.begin(),
                    [](int a, std::byte b) { return a == std::to_integer<int>(b); });
}

bool is_jpeg(std::span<const std::byte> file) {
  return begins_with(file, {0xFF, 0xD8, 0xFF});
}

bool is_png(std::span<const std::byte> file) {
  return begins_with(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'});
}

}  // namespace

void fail_on_image(const std::string& name, const char* format, const std::string& found) {
  fail(ErrorKind::data,
       "{}: expected a {} image, found damage: {}; get the file again or remove it", name, format,
       found);
}

bool starts_image(std::span<const std::byte> start) {
  return is_jpeg(start) || is_png(start);
}

Image decode_image(std::span<const std::byte> file, const std::string& name,
                   std::int64_t shortest_side) {
  if (is_jpeg(file)) return decode_jpeg(file, name, shortest_side);
  if (is_png(file)) return decode_png(file, name);
  fail(ErrorKind::data,
       "{}: expected a JPEG or PNG image, found {}; get the file again or remove it", name,
       file.empty() ? "an empty file" : "something else");
}

void decode_view(std::span<const std::byte> file, const std::string& name, const ChooseView& choose,
                 std::vector<std::uint32_t>& pixels) {
  if (is_jpeg(file)) {
    ImageView view;
    const ImagePart part = decode_jpeg_part(file, name, choose, view);
    return resample(part, view, pixels);
  }
  const ImagePart whole{decode_image(file, name)};
  resample(whole, choose(whole.image.height, whole.image.width), pixels);
}

void resize_and_crop(const Image& image, std::int64_t side, std::uint8_t* planes) {
  const auto used = static_cast<double>(std::min(image.height, image.width));
  const std::vector<Tap> columns = taps_for(image.width, used, side);
  const std::vector<Tap> rows = taps_for(image.height, used, side);

  // Along rows first, for the rows that are shown.
  const std::int64_t top = rows.front().first;
  const std::int64_t bottom = rows.back().first + std::ssize(rows.back().weights);
  const std::int64_t plane = (bottom - top) * side;
  std::vector<float> narrow(static_cast<std::size_t>(3 * plane));
  for (std::int64_t y = top; y < bottom; ++y) {
    const std::uint8_t* const from = image.pixels.data() + y * image.width * 3;
    for (std::int64_t x = 0; x < side; ++x) {
      const Tap& tap = columns[static_cast<std::size_t>(x)];
      std::array<float, 3> sum{};
      const std::uint8_t* pixel = from + tap.first * 3;
      for (const float weight : tap.weights)
        for (float& part : sum) part += weight * static_cast<float>(*pixel++);
      for (std::int64_t c = 0; c < 3; ++c)
        narrow[static_cast<std::size_t>(c * plane + (y - top) * side + x)] =
            sum[static_cast<std::size_t>(c)];
    }
  }

  std::vector<float> line(static_cast<std::size_t>(side));
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < side; ++y) {
      const Tap& tap = rows[static_cast<std::size_t>(y)];
      const float* from = narrow.data() + c * plane + (tap.first - top) * side;
      std::ranges::fill(line, 0.5f);
      for (const float weight : tap.weights) {
        for (std::int64_t x = 0; x < side; ++x)
          line[static_cast<std::size_t>(x)] += weight * from[x];
        from += side;
      }
      for (const float value : line)
        *planes++ = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

}  // namespace tasuki

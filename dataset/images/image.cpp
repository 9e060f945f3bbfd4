#include "dataset/images/image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "dataset/images/image_formats.hpp"

namespace tasuki {
namespace {

// The pixels that all threads together are decoding.
struct Decoders {
  std::mutex mutex;
  std::condition_variable have_finished;
  std::int64_t pixels = 0;
} decoders;

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

Image turned(Image stored, std::span<const std::byte> file, Exif exif) {
  const Orientation orientation = exif == Exif::apply ? find_orientation(file) : Orientation{};
  if (orientation.is_as_stored()) return stored;
  Image shown{stored.height, stored.width, std::vector<std::uint8_t>(stored.pixels.size()),
              stored.lacks_end};
  if (orientation.transposes) std::swap(shown.height, shown.width);
  turn<3>(stored.pixels.data(), stored.height, stored.width, orientation, shown.pixels.data());
  return shown;
}

bool decode_stored_view(std::span<const std::byte> file, const std::string& name,
                        const ChooseView& choose, std::vector<std::uint32_t>& pixels) {
  ImageView view;
  const auto decoded = [&]() -> ImagePart {
    if (is_jpeg(file)) return decode_jpeg_part(file, name, choose, view);
    ImagePart whole{decode_image(file, name, whole_image, Exif::ignore)};
    view = choose(whole.image.height, whole.image.width);
    return whole;
  };
  const ImagePart part = decoded();
  resample(part, view, pixels);
  return part.image.lacks_end;
}

}  // namespace

ImageError::ImageError(const std::string& name, std::string_view expected, std::string found,
                       std::string_view advice)
    : Error(ErrorKind::data,
            fmt::format("{}: expected {}, found {}; {}", name, expected, found, advice)),
      found_(std::move(found)) {}

void fail_on_image(const std::string& name, const char* format, std::string_view found) {
  throw ImageError(name, fmt::format("a {} image", format), fmt::format("damage: {}", found));
}

PixelsUnderWay::PixelsUnderWay(const std::string& name, std::int64_t height, std::int64_t width)
    : pixels_(height * width) {
  if (height > most_pixels / std::max<std::int64_t>(width, 1))
    throw ImageError(name, fmt::format("an image of at most {} pixels", most_pixels),
                     fmt::format("{} x {}", width, height), "make it smaller or remove it");
  std::unique_lock lock(decoders.mutex);
  decoders.have_finished.wait(lock, [&] { return decoders.pixels + pixels_ <= most_pixels; });
  decoders.pixels += pixels_;
}

PixelsUnderWay::~PixelsUnderWay() {
  {
    const std::lock_guard lock(decoders.mutex);
    decoders.pixels -= pixels_;
  }
  decoders.have_finished.notify_all();
}

bool starts_image(std::span<const std::byte> start) {
  return is_jpeg(start) || is_png(start);
}

Image decode_image(std::span<const std::byte> file, const std::string& name,
                   std::int64_t shortest_side, Exif exif) {
  if (is_jpeg(file)) return turned(decode_jpeg(file, name, shortest_side), file, exif);
  if (is_png(file)) return turned(decode_png(file, name), file, exif);
  throw ImageError(name, "a JPEG or PNG image", file.empty() ? "an empty file" : "something else");
}

bool decode_view(std::span<const std::byte> file, const std::string& name, const ChooseView& choose,
                 std::vector<std::uint32_t>& pixels, Exif exif) {
  const Orientation orientation = exif == Exif::apply ? find_orientation(file) : Orientation{};
  if (orientation.is_as_stored()) return decode_stored_view(file, name, choose, pixels);
  ImageView shown;
  std::vector<std::uint32_t> as_stored;
  const bool lacks_end = decode_stored_view(
      file, name,
      [&](std::int64_t height, std::int64_t width) {
        shown = orientation.transposes ? choose(width, height) : choose(height, width);
        return view_of_stored(shown, orientation, height, width);
      },
      as_stored);
  // A mirrored view shows the columns in reverse.
  Orientation to_shown = orientation;
  bool& reverses = orientation.transposes ? to_shown.reverses_rows : to_shown.reverses_columns;
  reverses = reverses != shown.is_mirrored;
  pixels.resize(as_stored.size());
  const std::int64_t rows = orientation.transposes ? shown.columns.count : shown.rows.count;
  const std::int64_t columns = orientation.transposes ? shown.rows.count : shown.columns.count;
  turn<sizeof(std::uint32_t)>(reinterpret_cast<const std::uint8_t*>(as_stored.data()), rows,
                              columns, to_shown, reinterpret_cast<std::uint8_t*>(pixels.data()));
  return lacks_end;
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

#include "dataset/images/image_stream.hpp"

#include "core/activity.hpp"
#include "core/file.hpp"
#include "core/philox.hpp"
#include "dataset/images/image.hpp"
#include "dataset/images/image_check.hpp"
#include "dataset/images/image_record.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

constexpr std::size_t images = 0;  // the field

// to = (channel - mean) * factor, with the channel in 8 bits of each pixel.
TASUKI_VECTORIZE void scale_channel(const std::uint32_t* pixels, int shift, float mean,
                                    float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] =
        (static_cast<float>(static_cast<std::int32_t>(pixels[i] >> shift & 255)) - mean) * factor;
}
TASUKI_VECTORIZE void scale_channel(const std::uint32_t* pixels, int shift, const float* means,
                                    float factor, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = (static_cast<float>(static_cast<std::int32_t>(pixels[i] >> shift & 255)) - means[i]) *
            factor;
}

// The middle of a mean image, channel after channel.
std::vector<float> middle_of(const Tensor& image, std::int64_t side) {
  const Shape& shape = image.shape();
  if (shape.rank() != 3 || shape[0] != 3 || shape[1] < side || shape[2] < side ||
      image.dtype() != DType::float32)
    fail_everywhere(ErrorKind::config,
                    "a mean image for images of {0} x {0} pixels: expected 3 x H x W values, H "
                    "and W at least {0}, found {1}",
                    side, shape.text());
  const std::int64_t top = (shape[1] - side) / 2, left = (shape[2] - side) / 2;
  std::vector<float> middle;
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < side; ++y) {
      const float* const row = image.data<float>() + (c * shape[1] + top + y) * shape[2] + left;
      middle.insert(middle.end(), row, row + side);
    }
  return middle;
}

// Writes pixels as resample.hpp packs them to planes.
std::function<void(const std::vector<std::uint32_t>& pixels, float* planes)> scaling_of(
    const PixelScale& scale, std::int64_t side) {
  if (scale.mean_image)
    return [means = middle_of(scale.mean_image, side)](const auto& pixels, float* planes) {
      for (std::size_t c = 0; c < 3; ++c)
        scale_channel(pixels.data(), static_cast<int>(8 * c), means.data() + c * pixels.size(),
                      1.0f / 255, planes + c * pixels.size(), pixels.size());
    };
  return [scale](const auto& pixels, float* planes) {
    for (std::size_t c = 0; c < 3; ++c)
      scale_channel(pixels.data(), static_cast<int>(8 * c), static_cast<float>(255 * scale.mean[c]),
                    static_cast<float>(1 / (255 * scale.deviation[c])), planes + c * pixels.size(),
                    pixels.size());
  };
}

}  // namespace

Transform create_view_transform(const ImageStreamSettings& settings) {
  Transform transform;
  transform.function_of_file = [settings, scale = scaling_of(settings.scale, settings.side)](
                                   std::span<const std::byte> record, const ExampleKey& key,
                                   float* planes) {
    const auto view = [&](std::int64_t height, std::int64_t width) {
      if (!settings.is_random) return middle_crop(height, width, settings.shorter, settings.side);
      // Any number that no other use of the seed takes.
      constexpr std::uint64_t crops = 0x63726f7073;
      const std::array<std::uint64_t, 3> numbers{crops, static_cast<std::uint64_t>(key.epoch),
                                                 static_cast<std::uint64_t>(key.id)};
      return random_crop(height, width, settings.side, settings.range, true,
                         RandomStream(settings.seed, mix(numbers)));
    };
    thread_local std::vector<std::uint32_t> pixels;
    const auto [name, file] = read_image_record(record);
    if (decode_view(file, name, view, pixels, settings.exif)) warn_of_missing_end(name);
    scale(pixels, planes);
  };
  return transform;
}

ImageStream::ImageStream(ImageList list, std::int64_t classes, const ImageStreamSettings& settings)
    : list_(std::move(list)),
      base_(present_folder()),
      header_(classification_header(list_.size(), {3, settings.side, settings.side}, classes)),
      transform_(create_view_transform(settings)) {
  TASUKI_CHECK(settings.side > 0 && settings.shorter >= settings.side,
               "images of {} pixels from {}", settings.side, settings.shorter);
  header_.field("x").is_image_file = true;
}

void ImageStream::check(Range examples) const {
  constexpr std::size_t most_shown = 3;
  fail_if_unreadable(look_at_images(list_.files(examples)), examples.size(), most_shown);
}

std::shared_ptr<const ImageStream> ImageStream::without(
    std::span<const std::int64_t> numbers) const {
  auto rest = std::make_shared<ImageStream>(*this);
  rest->list_ = list_.without(numbers);
  rest->header_.count = rest->list_.size();
  return rest;
}

void ImageStream::read(std::int64_t i, std::size_t field, FieldWriter& into) const {
  if (field != images) {
    into.as<std::int32_t>()[0] = list_.labels()[static_cast<std::size_t>(i)];
    return;
  }
  const std::filesystem::path path = base_ / list_.path(i);
  write_image_record(path.string(), read_file(path), into);
  report_progress();
}

FieldArray ImageStream::array(std::size_t field) const {
  if (field == images) return {};
  return {.values = reinterpret_cast<const std::byte*>(list_.labels().data())};
}

const Transform* ImageStream::transform(std::size_t field) const {
  return field == images ? &transform_ : nullptr;
}

}  // namespace tasuki

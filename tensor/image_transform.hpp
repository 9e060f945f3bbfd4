// The transform of an image on its way from stored bytes into a batch, and its random numbers,
// which are the same on every device.
#pragma once

#include <array>
#include <cstdint>

#include "core/philox.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// Steps in this order; settings that are not given are skipped. Values are on the scale of the
// stored pixels, 0 (black) to 255.
struct ImageTransform {
  // Random crop of the image's size after padding it with this many black pixels on every side: a
  // shift by -padding .. padding pixels down and right.
  std::int64_t padding = 0;
  // Mirrors left and right with probability 1/2.
  bool flip = false;
  // Adds a random part of full white, up to this much more or less: 0.2 is -51 .. 51.
  double brightness = 0;
  // Moves each channel's pixels away from the channel's mean or towards it, by a random factor in 1
  // - contrast .. 1 + contrast. After brightness and contrast, pixels are clipped to 0 .. 255, as
  // in a camera; unclipped, the standardisation below would undo most of both.
  double contrast = 0;
  // Per-image standardisation: (x - mean) / max(standard deviation, 1 / sqrt(n)) over all n values
  // of the image, as TensorFlow's per_image_standardization. Without it, results are x / 255.
  bool standardize = false;
};

// The steps, and the seed that their random numbers depend on besides epoch and example.
struct SeededImageTransform {
  ImageTransform settings;
  std::uint64_t seed = 0;
};

// Streams that keep the four kinds of randomness independent: leaving one out does not change the
// others.
struct ImageStreams {
  std::uint64_t crop, flip, brightness, contrast;
};
const ImageStreams& image_streams();

// The random choices for one image.
struct ImageDraw {
  // Where the crop begins in the image; negative: in the padding.
  std::int64_t down = 0, right = 0;
  bool mirrored = false;  // after that
  float brightness = 0, contrast = 1;
};

// A function of (seed, epoch, id) alone.
constexpr ImageDraw draw_image(const SeededImageTransform& transform, const ImageStreams& streams,
                               std::int64_t epoch, std::int64_t id) {
  const ImageTransform& settings = transform.settings;
  const auto random = [&](std::uint64_t purpose) {
    const std::array<std::uint64_t, 3> numbers{purpose, static_cast<std::uint64_t>(epoch),
                                               static_cast<std::uint64_t>(id)};
    return RandomStream(transform.seed, mix(numbers));
  };
  const auto around_zero = [&](std::uint64_t purpose) { return 2 * random(purpose).uniform() - 1; };
  ImageDraw draw;
  if (settings.padding > 0) {
    RandomStream stream = random(streams.crop);
    const auto places = static_cast<std::uint64_t>(2 * settings.padding + 1);
    draw.down = static_cast<std::int64_t>(stream.below(places)) - settings.padding;
    draw.right = static_cast<std::int64_t>(stream.below(places)) - settings.padding;
  }
  if (settings.flip) draw.mirrored = random(streams.flip).below(2) == 1;
  if (settings.brightness > 0)
    draw.brightness =
        255.0f * static_cast<float>(settings.brightness) * around_zero(streams.brightness);
  if (settings.contrast > 0)
    draw.contrast = 1 + static_cast<float>(settings.contrast) * around_zero(streams.contrast);
  return draw;
}

// Transforms the pixels of an image of `shape` (C x H x W) to as many floats, on a CPU. The same
// bits on every processor.
void transform_image(const ImageTransform& settings, const ImageDraw& draw, const Shape& shape,
                     const std::uint8_t* pixels, float* destination);

}  // namespace tasuki

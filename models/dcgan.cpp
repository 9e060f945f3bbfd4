#include "models/dcgan.hpp"

#include <fmt/core.h>

#include "core/error.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr float noise_deviation = 0.2f;

// Channels of images that have doubled this often.
std::int64_t channels_at(const DcganSettings& settings, int doublings) {
  const std::int64_t channels = settings.channels >> doublings;
  if (channels << doublings != settings.channels)
    fail_everywhere(ErrorKind::usage,
                    "images of {} x {} pixels need a number of channels that {} divides, not {}",
                    settings.image[1], settings.image[2], 1 << doublings, settings.channels);
  return channels;
}

int stages_of(const DcganSettings& settings) {
  const Shape& image = settings.image;
  if (image.rank() != 3 || image[1] != image[2])
    fail_everywhere(ErrorKind::usage, "expected square images (channels x side x side), found {}",
                    image.text());
  return dcgan_stages(image[1]);
}

// leaky_relu(x + noise)
Variable activate(const Variable& x) {
  return F::leaky_relu(F::gaussian_noise(x, noise_deviation));
}

Variable mean_entropy(const Variable& scores, float target) {
  return F::sigmoid_cross_entropy(scores, Tensor::full(scores.shape(), static_cast<double>(target),
                                                       DType::float32, scores.value().device()));
}

}  // namespace

int dcgan_stages(std::int64_t side) {
  int stages = 0;
  std::int64_t smallest = side;
  for (; smallest % 2 == 0 && smallest >= 8; smallest /= 2) ++stages;
  if (stages == 0 || smallest < 4 || smallest > 7)
    fail_everywhere(ErrorKind::usage,
                    "expected images of 8, 16, 28, 32, 64, 128 or another (4 .. 7) x 2^n pixels a "
                    "side, found {}",
                    side);
  return stages;
}

DcganGenerator::DcganGenerator(const DcganSettings& settings) {
  const int stages = stages_of(settings);
  const std::int64_t smallest = settings.image[1] >> stages, channels = settings.channels;
  const Initializer weights = initializers::normal(settings.weight_deviation);
  const BatchNorm::Settings with_relu{.relu = true};
  const auto normalise = [&](int number, std::int64_t features) {
    append(fmt::format("bn{}", number), std::make_unique<BatchNorm>(features, with_relu));
  };
  append("l0",
         std::make_unique<Linear>(settings.hidden, smallest * smallest * channels, true, weights));
  normalise(0, smallest * smallest * channels);
  append([=](const Variable& x) {
    return F::reshape(x, {x.shape()[0], channels, smallest, smallest});
  });
  for (int i = 1; i <= stages; ++i) {
    append(fmt::format("dc{}", i),
           std::make_unique<Deconv2d>(channels_at(settings, i - 1), channels_at(settings, i), 4, 2,
                                      1, true, weights));
    normalise(i, channels_at(settings, i));
  }
  append(fmt::format("dc{}", stages + 1),
         std::make_unique<Deconv2d>(channels_at(settings, stages), settings.image[0], 3, 1, 1, true,
                                    weights));
  append(F::sigmoid);
}

DcganDiscriminator::DcganDiscriminator(const DcganSettings& settings) {
  const int stages = stages_of(settings);
  const std::int64_t smallest = settings.image[1] >> stages;
  const Initializer weights = initializers::normal(settings.weight_deviation);
  const BatchNorm::Settings without_gamma{.use_gamma = false};
  const auto convolve = [&](const std::string& name, std::int64_t from, std::int64_t to, bool halve,
                            bool normalise) {
    append("c" + name,
           std::make_unique<Conv2d>(from, to, halve ? 4 : 3, halve ? 2 : 1, 1, true, weights));
    if (normalise) append("bn" + name, std::make_unique<BatchNorm>(to, without_gamma));
    append(activate);
  };
  append([](const Variable& x) { return F::gaussian_noise(x, noise_deviation); });
  convolve("0_0", settings.image[0], channels_at(settings, stages), false, false);
  for (int i = 0; i < stages; ++i) {
    const std::int64_t to = channels_at(settings, stages - 1 - i);
    convolve(fmt::format("{}_1", i), channels_at(settings, stages - i), to, true, true);
    convolve(fmt::format("{}_0", i + 1), to, to, false, true);
  }
  append(fmt::format("l{}", stages + 1),
         std::make_unique<Linear>(smallest * smallest * settings.channels, 1, true, weights));
}

Dcgan::Dcgan(const DcganSettings& settings) : gen(settings), dis(settings) {
  add("gen", gen);
  add("dis", dis);
}

DcganLosses dcgan_losses(Dcgan& gan, const DcganSettings& settings, const Tensor& real) {
  const Variable real_scores = gan.dis(Variable(real));
  const Tensor noise =
      F::uniform_noise({real.shape()[0], settings.hidden}, real.dtype(), real.device());
  const Variable fake_scores = gan.dis(gan.gen(Variable(noise)));
  return {.dis = mean_entropy(real_scores, 1) + mean_entropy(fake_scores, 0),
          .gen = mean_entropy(fake_scores, 1)};
}

}  // namespace tasuki

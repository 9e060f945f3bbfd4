// Sums by channel, and terms added by channel, in every order in which activations lie.
#include "tensor/cpu/channel_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/philox.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {
namespace {

// Counts that fill lines of 16 floats, and that do not.
const Shape shapes[] = {{3, 16, 4, 4}, {2, 20, 5, 7}, {5, 3, 9, 9}, {1, 1, 1, 1},
                        {7, 33, 1, 3}, {60, 18},      {1, 5},       {200, 64, 9, 9}};

Tensor random_values(const Shape& shape, float mean) {
  Tensor made = Tensor::empty(shape);
  RandomStream random(7);
  for (float& value : made.span<float>()) value = mean + random.normal();
  return made;
}

// The same values in all orders; `given` is plain.
std::vector<Tensor> in_all_orders(const Tensor& given) {
  std::vector<Tensor> orders{given};
  if (given.shape().rank() != 4) return orders;
  using Tag = dnnl::memory::format_tag;
  for (const Tag tag : {Tag::nChw8c, Tag::nChw16c, Tag::nhwc})
    orders.push_back(reordered(
        given, {{given.shape().begin(), given.shape().end()}, dnnl::memory::data_type::f32, tag}));
  return orders;
}

// Of plain N x C or N x C x H x W.
float at(const Tensor& x, std::int64_t item, std::int64_t channel, std::int64_t pixel) {
  const std::int64_t pixels = x.shape().count_per_item() / x.shape()[1];
  return x.data<float>()[(item * x.shape()[1] + channel) * pixels + pixel];
}

TEST(ChannelKernels, SumsAreExactForLargeMeans) {
  for (const Shape& shape : shapes)
    for (const float mean : {0.0F, 3000.0F}) {
      const Tensor given = random_values(shape, mean);
      for (const Tensor& x : in_all_orders(given)) {
        const ChannelOrder order = ChannelOrder::of(x).value();
        const ChannelSums found = channel_sums(static_cast<const float*>(x.raw()), order);
        const std::int64_t pixels = shape.count_per_item() / shape[1];
        for (std::int64_t c = 0; c < shape[1]; ++c) {
          const auto values = static_cast<double>(shape[0] * pixels);
          double sum = 0, squares = 0;
          for (std::int64_t n = 0; n < shape[0]; ++n)
            for (std::int64_t p = 0; p < pixels; ++p) sum += at(given, n, c, p);
          for (std::int64_t n = 0; n < shape[0]; ++n)
            for (std::int64_t p = 0; p < pixels; ++p)
              squares += std::pow(at(given, n, c, p) - sum / values, 2);
          const double found_mean = found.values[static_cast<std::size_t>(c)] / values;
          EXPECT_NEAR(found_mean, sum / values, 1e-6) << shape.text();
          EXPECT_NEAR(found.squares[static_cast<std::size_t>(c)] / values - found_mean * found_mean,
                      squares / values, 2e-6 * std::max(1.0, squares / values))
              << shape.text() << ", channel " << c << " of order " << order.lanes;
        }
      }
    }
}

TEST(ChannelKernels, SumsAreBitIdenticalForAnyNumberOfThreads) {
  const Tensor x = random_values({64, 24, 32, 32}, 1);
  const ChannelOrder order = ChannelOrder::of(x).value();
  const auto of = [&] { return channel_sums(x.data<float>(), order); };
  const int before = cpu_threads();
  set_cpu_threads(1);
  const ChannelSums one = of();
  set_cpu_threads(3);
  const ChannelSums three = of();
  set_cpu_threads(before);
  EXPECT_EQ(one.values, three.values);
  EXPECT_EQ(one.squares, three.squares);
}

TEST(ChannelKernels, AddTermsToEachChannel) {
  for (const Shape& shape : shapes) {
    const Tensor given = random_values(shape, 2);
    std::vector<float> factors(64), means(64), shifts(64);
    for (std::size_t c = 0; c < 64; ++c) {
      factors[c] = 0.5F * static_cast<float>(c % 7);
      means[c] = static_cast<float>(c % 3);
      shifts[c] = static_cast<float>(c) - 9;
    }
    for (const Tensor& x : in_all_orders(given)) {
      const Tensor y = reordered(Tensor::full(shape, 1), desc_of(x));
      add_scaled_channels(static_cast<float*>(y.raw()), static_cast<const float*>(x.raw()),
                          ChannelOrder::of(x).value(),
                          {factors.data(), means.data(), shifts.data()});
      const Tensor found = y.plain();
      const std::int64_t pixels = shape.count_per_item() / shape[1];
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t c = 0; c < shape[1]; ++c)
          for (std::int64_t p = 0; p < pixels; ++p) {
            const auto k = static_cast<std::size_t>(c);
            const float expected = 1 + factors[k] * (at(given, n, c, p) - means[k]) + shifts[k];
            ASSERT_NEAR(at(found, n, c, p), expected, 1e-5 * (1 + std::abs(expected)))
                << shape.text();
          }
    }
  }
}

}  // namespace
}  // namespace tasuki

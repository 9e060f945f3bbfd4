// Batches of a data set and noise in 16 bits: the bits of float32's, rounded, without an array of
// float32.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "core/philox.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/image_operations.hpp"
#include "tensor/image_transform.hpp"
#include "tests/support/orders.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::random_tensor;

Tensor five(const std::array<std::int64_t, 5>& numbers) {
  return Tensor::from(std::span<const std::int64_t>(numbers), {5});
}
const Tensor indices = five({3, 0, 6, 6, 2});

Tensor pixels(const Shape& shape) {
  Tensor made = Tensor::empty(shape, DType::uint8);
  RandomStream stream(3);
  for (std::uint8_t& pixel : made.span<std::uint8_t>())
    pixel = static_cast<std::uint8_t>(stream.below(256));
  return made;
}

void expect_same_bits(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.dtype(), expected.dtype());
  ASSERT_EQ(found.shape(), expected.shape());
  const Tensor a = found.plain(), b = expected.plain();
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << found.shape().text();
}

// made(type) in 16 bits: float32's values, rounded. It allocates its result and little else.
void expect_rounded(const std::function<Tensor(DType)>& made) {
  const Tensor exact = made(DType::float32);
  for (const DType type : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name_of(type));
    cpu().reset_peak_memory(Device::cpu());
    const std::size_t before = cpu().memory(Device::cpu()).in_use;
    const Tensor found = made(type);
    const std::size_t most = cpu().memory(Device::cpu()).peak - before;
    expect_same_bits(found, exact.to(type));
    EXPECT_LE(most, found.bytes() + 8192);
  }
}

TEST(RoundedBatches, OfPixelsAreDecodedInBlocks) {
  for (const Shape& shape : {Shape{7, 3, 41, 37}, Shape{7, 5000}, Shape{7, 0}})
    expect_rounded(
        [&, source = pixels(shape)](DType type) { return cpu().gather(source, indices, type); });
}

TEST(RoundedBatches, OfNumbersAreRoundedItemByItem) {
  expect_rounded([source = random_tensor({7, 3000}, 1)](DType type) {
    return cpu().gather(source, indices, type);
  });
}

TEST(RoundedBatches, OfTransformedImagesAreRoundedImageByImage) {
  const ImageTransform settings{
      .padding = 4, .flip = true, .brightness = 0.2, .contrast = 0.2, .standardize = true};
  const Tensor ids = five({40, 1, 2, 77, 20});
  const Tensor epoch = Tensor::full({1}, 3, DType::int64);
  for (const int threads : {1, 3}) {
    set_cpu_threads(threads);
    for (const Shape& shape : {Shape{7, 3, 41, 37}, Shape{7, 1, 11, 13}})
      expect_rounded([&, source = pixels(shape)](DType type) {
        return cpu().transform_images(source, indices, ids, epoch, {settings, 7}, type);
      });
  }
  set_cpu_threads(1);
}

// Noise for x.
Tensor noisy(const Tensor& x, Noise kind) {
  return cpu().images().add_noise(x, kind, 0.5f, Tensor::full({}, 77, DType::int64),
                                  indices.slice(0, x.shape()[0]));
}

const Shape noisy_shapes[] = {{5, 1000}, {3, 5, 7, 9}, {2, 20, 14, 14}, {2, 48, 18, 10}};

TEST(RoundedNoise, IsAddedInBlocks) {
  for (const Noise kind : {Noise::normal, Noise::uniform})
    for (const Shape& shape : noisy_shapes) {
      const Tensor values = random_tensor(shape, 2).to(DType::bfloat16);
      // Values of 8 bits are float16's, too.
      expect_rounded([&, exact = values.to(DType::float32),
                      half = values.to(DType::float16)](DType type) {
        return noisy(type == DType::float32 ? exact : type == DType::float16 ? half : values, kind);
      });
    }
}

TEST(RoundedNoise, IsAddedInTheOrderAtHand) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "oneDNN reorders with AVX512_BF16 or AMX only";
  for (const testing::Order& order : testing::every_order)
    for (const Shape& shape : noisy_shapes) {
      SCOPED_TRACE(order.name);
      const Tensor x = random_tensor(shape, 2).to(DType::bfloat16);
      expect_same_bits(noisy(testing::in_order(x, order), Noise::normal),
                       noisy(x.to(DType::float32), Noise::normal).to(DType::bfloat16));
    }
}

}  // namespace
}  // namespace tasuki

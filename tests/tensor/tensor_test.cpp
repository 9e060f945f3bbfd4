#include "tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tensor/backend.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::values_of;
using Values = std::vector<float>;

Tensor counted(const Shape& shape) {
  Tensor made = Tensor::empty(shape);
  float next = 0;
  for (float& value : made.span<float>()) value = next++;
  return made;
}

TEST(Shape, ComputesCountsAndText) {
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ(Shape{}.text(), "scalar");
  EXPECT_EQ((Shape{100, 1, 28, 28}).text(), "100x1x28x28");
  EXPECT_EQ((Shape{3, 4, 5}).count(), 60);
  EXPECT_EQ((Shape{3, 4, 5}).count_per_item(), 20);
  EXPECT_EQ((Shape{3}).count_per_item(), 1);
  EXPECT_EQ((Shape{0, 4}).count(), 0);
  EXPECT_EQ((Shape{0, 4}).count_per_item(), 4);
  EXPECT_EQ((Shape{3, 4}).with_items(7), (Shape{7, 4}));
}

TEST(Shape, ComparesEqual) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE(Shape{}, Shape{1});
}

TEST(Shape, RejectsImpossibleShapes) {
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(Shape{}.with_items(2), Error);
}

TEST(Tensor, CopiesShareMemoryAndClonesDoNot) {
  const Tensor a = counted({2, 2});
  const Tensor shared = a, cloned = a.clone();
  a.fill(7);
  EXPECT_EQ(values_of(shared), (Values{7, 7, 7, 7}));
  EXPECT_EQ(values_of(cloned), (Values{0, 1, 2, 3}));
}

// -0 is what sums begin with that must not change what is added.
TEST(Tensor, FillsWithBothZeros) {
  const Tensor a = counted({3});
  a.fill(-0.0);
  for (const float each : a.span<float>()) EXPECT_TRUE(each == 0 && std::signbit(each));
  a.fill(0.0);
  for (const float each : a.span<float>()) EXPECT_FALSE(std::signbit(each));
}

TEST(Tensor, ReshapeAndSliceAreViews) {
  const Tensor a = counted({3, 4});
  EXPECT_EQ(a.reshape({2, 6}).raw(), a.raw());
  const Tensor last = a.slice(1, 3);
  EXPECT_EQ(last.shape(), (Shape{2, 4}));
  EXPECT_EQ(values_of(last), (Values{4, 5, 6, 7, 8, 9, 10, 11}));
  last.fill(0);
  EXPECT_EQ(a.data<float>()[4], 0);
  EXPECT_EQ(a.data<float>()[3], 3);
  EXPECT_EQ(a.slice(3, 3).count(), 0);
  EXPECT_THROW(a.reshape({5}), Error);
  EXPECT_THROW(a.slice(2, 4), Error);
  EXPECT_THROW(a.slice(2, 1), Error);
  EXPECT_THROW(a.slice(-1, 1), Error);
  EXPECT_THROW(Tensor::zeros({}).slice(0, 0), Error);
}

TEST(Tensor, ElementAccessChecksTypes) {
  const Tensor a = Tensor::zeros({2}, DType::int32);
  EXPECT_NO_THROW(a.data<std::int32_t>());
  EXPECT_THROW(a.data<float>(), Error);
}

TEST(Tensor, ItemRequiresOneElement) {
  EXPECT_EQ(Tensor::full({}, 2.5).item(), 2.5);
  EXPECT_EQ(Tensor::full({1, 1}, -3, DType::int64).item(), -3);
  EXPECT_THROW(Tensor::zeros({2}).item(), Error);
}

TEST(Tensor, SupportsEmptyTensors) {
  const Tensor none = Tensor::zeros({0, 3});
  EXPECT_TRUE(none.defined());
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_EQ(none.clone().shape(), (Shape{0, 3}));
  EXPECT_EQ(none.to(DType::float64).shape(), (Shape{0, 3}));
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, RejectsViewsBeyondTheMemory) {
  const Tensor a = Tensor::zeros({16});  // 64 bytes, the pool's smallest block
  EXPECT_NO_THROW(Tensor(a.storage(), 32, {8}, DType::float32));
  EXPECT_THROW(Tensor(a.storage(), 32, {9}, DType::float32), Error);
}

TEST(Tensor, RejectsCopiesOfDifferentShapes) {
  EXPECT_THROW(Tensor::zeros({2}).copy_from(Tensor::zeros({3})), Error);
  EXPECT_THROW(Tensor::zeros({2}).copy_from(Tensor::zeros({2, 1})), Error);
}

TEST(Device, HasTextAndEquality) {
  EXPECT_EQ(Device::cpu().text(), "cpu");
  EXPECT_EQ(Device::cuda(2).text(), "cuda:2");
  EXPECT_NE(Device::cuda(0), Device::cuda(1));
}

TEST(Backend, CudaIsUnavailableUntilLoaded) {
  try {
    backend(Device::cuda(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos);
  }
  EXPECT_THROW(Tensor::zeros({2}, DType::float32, Device::cuda(0)), Error);
}

TEST(Backend, RejectsASecondOfAKind) {
  EXPECT_THROW(register_backend(DeviceKind::cpu, nullptr), Error);
}

}  // namespace
}  // namespace tasuki

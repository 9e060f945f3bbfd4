// Filters in blocks of channels, element by element.
#include "tensor/cpu/filter_order.hpp"

#include <gtest/gtest.h>

#include "tensor/backend.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::random_tensor;

Tensor empty_in_blocks(const Shape& shape, dnnl::memory::format_tag order) {
  return empty_in({{shape.begin(), shape.end()}, dnnl::memory::data_type::f32, order});
}

class FilterOrder : public ::testing::TestWithParam<Shape> {
 protected:
  // Where an element of the plain order (its index there) lies in blocks.
  static std::int64_t place(const Shape& s, std::int64_t index) {
    const std::int64_t positions = s[2] * s[3], position = index % positions;
    const std::int64_t i = index / positions % s[1], o = index / positions / s[1];
    const std::int64_t tile = (o / 16 * (s[1] / 16) + i / 16) * positions + position;
    return (tile * 16 + i % 16) * 16 + o % 16;
  }
};

TEST_P(FilterOrder, RoundTripsBlockedFilters) {
  const Shape& shape = GetParam();
  for (const int threads : {1, 2}) {
    set_cpu_threads(threads);
    const Tensor plain = random_tensor(shape, 1);
    const Tensor blocked = empty_in_blocks(shape, dnnl::memory::format_tag::OIhw16i16o);
    ASSERT_TRUE(rearrange_filters(blocked, plain, false));
    const auto* const in_blocks = static_cast<const float*>(blocked.raw());
    for (std::int64_t i = 0; i < plain.count(); ++i)
      ASSERT_EQ(in_blocks[place(shape, i)], plain.data<float>()[i]) << i;
    const Tensor back = Tensor::full(shape, 7);
    ASSERT_TRUE(rearrange_filters(back, blocked, false));
    const Tensor sum = random_tensor(shape, 2), before = random_tensor(shape, 2);
    ASSERT_TRUE(rearrange_filters(sum, blocked, true));
    for (std::int64_t i = 0; i < plain.count(); ++i) {
      ASSERT_EQ(back.data<float>()[i], plain.data<float>()[i]) << i;
      ASSERT_EQ(sum.data<float>()[i], before.data<float>()[i] + plain.data<float>()[i]) << i;
    }
  }
  set_cpu_threads(1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FilterOrder,
                         ::testing::Values(Shape{16, 16, 1, 1}, Shape{48, 32, 3, 3},
                                           Shape{16, 64, 2, 5}, Shape{160, 96, 3, 3}));

TEST(FilterOrders, LeaveOtherFiltersAlone) {
  const Shape whole{32, 32, 3, 3}, ragged{20, 32, 3, 3};
  using Tag = dnnl::memory::format_tag;
  const auto refused = [](const Tensor& destination, const Tensor& source, bool accumulate) {
    return !rearrange_filters(destination, source, accumulate);
  };
  const Tensor blocked = empty_in_blocks(whole, Tag::OIhw16i16o);
  EXPECT_TRUE(refused(empty_in_blocks(whole, Tag::OIhw16o16i), random_tensor(whole, 1), false));
  EXPECT_TRUE(refused(empty_in_blocks(whole, Tag::OIhw8i8o), random_tensor(whole, 1), false));
  EXPECT_TRUE(refused(empty_in_blocks(ragged, Tag::OIhw16i16o), random_tensor(ragged, 1), false));
  EXPECT_TRUE(refused(blocked, random_tensor(whole, 1), true));  // nothing adds to blocks
  EXPECT_TRUE(refused(blocked, empty_in_blocks(whole, Tag::OIhw16i16o), false));
  EXPECT_TRUE(refused(Tensor::empty(whole), random_tensor(whole, 1), false));
}

}  // namespace
}  // namespace tasuki

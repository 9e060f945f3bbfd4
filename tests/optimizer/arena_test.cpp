#include "optimizer/arena.hpp"

#include <gtest/gtest.h>

#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

TEST(ParameterArena, LaysOutParametersInReverseOnCacheLines) {
  Vectors model({17, 1, 16}), child({3});
  model.add("child", child);
  float next = 1;
  for (const auto& [path, parameter] : model.parameters()) parameter->value().fill(next++);
  const ParameterArena arena(model, nullptr);

  ASSERT_EQ(arena.entries().size(), 4u);
  const std::vector<std::string> paths = {"child/a", "c", "b", "a"};
  const std::vector<std::int64_t> offsets = {0, 16, 32, 48}, counts = {3, 16, 1, 17};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(arena.entries()[i].path, paths[i]);
    EXPECT_EQ(arena.entries()[i].offset, offsets[i]);
    EXPECT_EQ(arena.entries()[i].count, counts[i]);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.entries()[i].parameter->value().raw()) % 64,
              0u);
  }
  EXPECT_EQ(arena.values().count(), 48 + 32 + 16);
  std::vector<float> expected(static_cast<std::size_t>(arena.values().count()), 0);
  for (std::size_t i = 0; i < 4; ++i)
    std::fill_n(expected.begin() + offsets[i], counts[i], static_cast<float>(4 - i));
  EXPECT_EQ(values_of(arena.values()), expected);
  EXPECT_TRUE(arena.matches(model));
}

TEST(ParameterArena, WritesGradientsInPlace) {
  Vectors model({2, 3});
  const ParameterArena arena(model, nullptr);
  loss_with_gradients({{&model[0], vector_of({1, 2})}, {&model[1], vector_of({3, 4, 5})}})
      .backward();
  std::vector<float> expected(48, 0);
  std::copy_n(std::array{3.f, 4.f, 5.f}.begin(), 3, expected.begin());
  std::copy_n(std::array{1.f, 2.f}.begin(), 2, expected.begin() + 16);
  EXPECT_EQ(values_of(arena.gradients()), expected);
}

TEST(ParameterArena, SegmentsCoverEntriesAndNotices) {
  Vectors model({5, 20});
  const ParameterArena arena(model, nullptr);
  const GradientView view = arena.gradient_view();
  ASSERT_EQ(view.segments.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(view.segments[i].offset, arena.entries()[i].offset);
    EXPECT_EQ(view.segments[i].count, arena.entries()[i].count);
  }
  arena.notice().fill(3);
  EXPECT_EQ(values_of(arena.gradients())[static_cast<std::size_t>(view.segments[2].offset)], 3);
  arena.stop_notice().fill(4);
  EXPECT_EQ(values_of(arena.gradients())[static_cast<std::size_t>(view.segments[2].offset) + 1], 4);
  EXPECT_EQ(view.segments[2].count, ParameterArena::notices);
}

TEST(ParameterArena, StoresTiedParametersOnce) {
  Vectors model({4}), shared({2});
  model.add("encoder", shared);
  model.add("decoder", shared);
  const ParameterArena arena(model, nullptr);
  ASSERT_EQ(arena.entries().size(), 2u);
  EXPECT_EQ(arena.entries()[0].path, "encoder/a");
  EXPECT_TRUE(arena.matches(model));
}

TEST(ParameterArena, NoticesEveryChange) {
  Vectors model({4}), more({2});
  const ParameterArena arena(model, nullptr);
  EXPECT_TRUE(arena.matches(model));
  model.add("more", more);
  EXPECT_FALSE(arena.matches(model));
  const ParameterArena next(model, nullptr);
  EXPECT_TRUE(next.matches(model));
  more[0].move_to(Tensor::zeros({2}), Tensor::zeros({2}));
  EXPECT_FALSE(next.matches(model));
}

}  // namespace
}  // namespace tasuki

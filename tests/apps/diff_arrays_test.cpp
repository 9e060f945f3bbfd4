// By how much arrays differ, as tasuki-diff says it.
#include "tools/diff/arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "saving/npz.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/diff/hashes.hpp"

namespace tasuki::diff {
namespace {

using ::testing::ElementsAre;

template <class T>
std::optional<ArrayDifference> compare(std::initializer_list<T> a, std::initializer_list<T> b,
                                       const Shape& shape) {
  return compare_arrays("x", Tensor::from(std::span<const T>(a.begin(), a.size()), shape),
                        Tensor::from(std::span<const T>(b.begin(), b.size()), shape));
}

TEST(ArrayDifferences, AreCountedAndMeasured) {
  EXPECT_FALSE(compare<float>({1, 2, 3, 4}, {1, 2, 3, 4}, {2, 2}));
  const float next = std::nextafter(3.0F, 4.0F);
  const auto one = compare<float>({1, 2, 3, 4}, {1, 2, next, 4}, {2, 2});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->differing, 1);
  EXPECT_THAT(one->first, ElementsAre(1, 0));
  EXPECT_EQ(one->ulps, 1U);
  EXPECT_EQ(one->absolute, static_cast<double>(next) - 3);
  EXPECT_EQ(one->relative, one->absolute / next);
  EXPECT_EQ(text_of(*one),
            "1 of 4 elements, first [1, 0]; largest difference 2.38e-07, relative 7.95e-08, 1 ulp");
}

// From the smallest negative number to the smallest positive one there are two steps.
TEST(ArrayDifferences, CountStepsAcrossZero) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(compare<float>({-least}, {least}, {1})->ulps, 2U);
  const auto zeros = compare<float>({0.0F}, {-0.0F}, {1});
  EXPECT_EQ(zeros->differing, 1);
  EXPECT_EQ(zeros->ulps, 0U);
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(compare<double>({-largest}, {largest}, {1})->ulps, 0xffdfffffffffffff - 1);
}

TEST(ArrayDifferences, CountWhatIsNotFiniteByItself) {
  const float nan = std::nanf("");
  EXPECT_FALSE(compare<float>({nan, 1}, {nan, 1}, {2}));
  const auto found = compare<float>({nan, 1, 1}, {1, 1, 2}, {3});
  EXPECT_EQ(found->differing, 2);
  EXPECT_EQ(found->not_finite, 1);
  EXPECT_EQ(found->absolute, 1);
  EXPECT_EQ(text_of(*compare<float>({nan}, {1}, {1})),
            "1 of 1 elements, first [0]; 1 with a number that is not finite");
}

TEST(ArrayDifferences, AreOfIntegersToo) {
  const auto found = compare<std::int64_t>({7}, {9}, {});
  EXPECT_EQ(text_of(*found), "differs; largest difference 2, relative 0.222");
  EXPECT_TRUE(compare<std::uint8_t>({7}, {9}, {1}));
  EXPECT_TRUE(compare<std::int32_t>({-7}, {9}, {1}));
}

TEST(ArrayDifferences, AreOfShapesAndTypes) {
  EXPECT_EQ(text_of(*compare_arrays("x", Tensor::zeros({2, 3}), Tensor::zeros({3, 2}))),
            "float32 2x3 in the first, float32 3x2 in the second");
  EXPECT_EQ(text_of(*compare_arrays("x", Tensor::zeros({2}), Tensor::zeros({2}, DType::int32))),
            "float32 2 in the first, int32 2 in the second");
}

// Weights in their order, then each one's states; what is not the model's is left out.
TEST(SavedArrays, AreComparedInTheModelsOrder) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, float value, bool has_more) {
    std::vector<NpzEntry> entries;
    for (const char* const array :
         {"updater/model:main/l1/W", "updater/model:main/l1/b", "updater/optimizer:main/t",
          "updater/optimizer:main/l1/b/m", "updater/optimizer:main/l1/W/m", "extensions/x"})
      entries.push_back({array, Tensor::full({2}, value)});
    entries.push_back({"updater/optimizer:main/name", std::string("adam")});
    if (has_more) entries.push_back({"updater/model:main/l2/W", Tensor::full({1}, 1)});
    write_npz(folder / name, entries);
    return folder / name;
  };
  const NpzFile a(write("a", 1, false)), b(write("b", 2, true));
  const ArraysComparison found = compare_sources(a, b);
  EXPECT_EQ(found.compared, 6);
  std::vector<std::string> names;
  for (const ArrayDifference& each : found.differing) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("l1/W", "l1/b", "l2/W", "t", "l1/W/m", "l1/b/m"));
  EXPECT_EQ(found.differing[2].what, "only in the second");
  EXPECT_TRUE(compare_sources(a, a).differing.empty());
}

TEST(HashedGroups, AreComparedByPath) {
  const StepHashes a{.iteration = 1,
                     .groups = {{"gradients", {{"x", 1}}}, {"weights", {{"x", 1}, {"y", 2}}}}};
  const StepHashes b{.iteration = 1, .groups = {{"weights", {{"y", 2}, {"x", 3}, {"z", 4}}}}};
  const std::vector<GroupDifference> found = compare_groups(a, b);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].what, "only the first run has them");
  EXPECT_EQ(found[1].arrays, 3);
  EXPECT_THAT(found[1].differing, ElementsAre("x", "z"));
}

}  // namespace
}  // namespace tasuki::diff

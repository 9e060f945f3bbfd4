// Arrays in the program's memory, as tensors and as data sets.
#include "dataset/array_dataset.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "nn/functions/activation.hpp"
#include "tensor/program_array.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::expect_error;

// rows x columns, value 100 * row + column.
std::vector<float> grid(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) values.push_back(static_cast<float>(100 * i + j));
  return values;
}

std::vector<float> values_of(const Tensor& tensor) {
  const auto values = tensor.span<float>();
  return {values.begin(), values.end()};
}

TEST(TensorOver, ReadsAndWritesTheProgramsMemory) {
  std::vector<float> memory{0, 1, -2, 3, -4};
  // From the second element on: neither aligned nor whole.
  const Tensor tensor = tensor_over(memory.data() + 1, {2, 2});
  EXPECT_EQ(tensor.raw(), memory.data() + 1);
  memory[2] = -7;
  EXPECT_EQ(values_of(functions::relu(Variable(tensor)).value()), (std::vector<float>{1, 0, 3, 0}));
  tensor.fill(5);
  EXPECT_EQ(memory, (std::vector<float>{0, 5, 5, 5, 5}));
}

TEST(TensorOver, LeavesTheMemoryToTheProgram) {
  static const std::vector<std::int32_t> labels{3, 1};
  {
    const Tensor tensor = tensor_over(labels.data(), {2});
    EXPECT_EQ(tensor.dtype(), DType::int32);
  }
  EXPECT_EQ(labels, (std::vector<std::int32_t>{3, 1}));
  expect_error(ErrorKind::internal, {"over no memory"},
               [] { tensor_over(static_cast<const float*>(nullptr), {2}); });
}

TEST(ProgramArray, FollowsStrides) {
  const std::vector<float> values = grid(4, 5);
  EXPECT_TRUE(ProgramArray(values.data(), {4, 5}).is_plain());
  EXPECT_EQ(values_of(ProgramArray(values.data(), {4, 5}).copy()), values);
  const ProgramArray inside(values.data() + 6, {2, 3}, {5, 1});
  EXPECT_FALSE(inside.is_plain());
  EXPECT_EQ(values_of(inside.copy()), (std::vector<float>{101, 102, 103, 201, 202, 203}));
  const ProgramArray transposed(values.data(), {5, 4}, {1, 5});
  EXPECT_EQ(transposed.copy().data<float>()[1], 100);
  const ProgramArray backward(values.data() + 4, {5}, {-1});
  EXPECT_EQ(values_of(backward.copy()), (std::vector<float>{4, 3, 2, 1, 0}));
  expect_error(ErrorKind::usage, {"4x5", "expected 2 strides, found 1"}, [&] {
    ProgramArray(values.data(), {4, 5}, {5});
  });
}

TEST(ProgramArray, CopiesElementsOfAllSizes) {
  const std::vector<std::uint8_t> bytes{1, 2, 3, 4};
  EXPECT_EQ(ProgramArray(bytes.data(), {2}, {2}).copy().data<std::uint8_t>()[1], 3);
  const std::vector<double> doubles{1, 2, 3, 4};
  EXPECT_EQ(ProgramArray(doubles.data(), {2}, {3}).copy().data<double>()[1], 4);
}

TEST(ArrayDataset, ReadsWindowsWhereTheyLie) {
  // Windows of 2 x 3 around each of 3 x 3 places; they overlap.
  std::vector<float> values = grid(4, 5);
  const ArrayDataset dataset({{"x", {values.data(), {3, 3, 2, 3}, {5, 1, 5, 1}}, 2},
                              {"t", {values.data(), {3, 3}, {5, 1}}, 2, true}});
  EXPECT_EQ(dataset.size(), 9);
  EXPECT_EQ(dataset.header().field("x").shape, (Shape{2, 3}));
  EXPECT_TRUE(dataset.header().field("t").is_target);
  values[0] = -1;  // seen by batches that are made from now on
  const std::vector<std::int64_t> indices{0, 5};
  const Batch batch = read_batch(dataset, indices);
  EXPECT_EQ(batch["x"].shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(values_of(batch["x"]),
            (std::vector<float>{-1, 1, 2, 100, 101, 102, 102, 103, 104, 202, 203, 204}));
  EXPECT_EQ(values_of(batch["t"]), (std::vector<float>{-1, 102}));
}

TEST(ArrayDataset, IsATensorDatasetWherePlain) {
  std::vector<double> values(12);
  std::iota(values.begin(), values.end(), 0.5);
  const ArrayDataset dataset({{"x", {values.data(), {3, 2, 2}}, 2}});
  EXPECT_EQ(dataset.array(0).values, reinterpret_cast<const std::byte*>(values.data()));
  const std::vector<std::int64_t> indices{5};
  EXPECT_EQ(values_of(read_batch(dataset, indices)["x"]), (std::vector<float>{10.5, 11.5}));
}

TEST(ArrayDataset, RejectsFieldsThatDoNotFit) {
  const std::vector<float> values = grid(4, 5);
  expect_error(ErrorKind::usage, {"'t'", "expected 4 examples", "found 20"}, [&] {
    ArrayDataset({{"x", {values.data(), {4, 5}}}, {"t", {values.data(), {20}}}});
  });
  expect_error(ErrorKind::usage, {"'x'", "no memory"}, [] {
    ArrayDataset({{"x", {static_cast<const float*>(nullptr), {4}}}});
  });
  expect_error(ErrorKind::usage, {"'x'", "3 axes of examples", "4x5"}, [&] {
    ArrayDataset({{"x", {values.data(), {4, 5}}, 3}});
  });
}

}  // namespace
}  // namespace tasuki

// From stored bytes to batches.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "dataset/dataset.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/views.hpp"
#include "examples.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using tasuki::testing::expect_error;
using tasuki::testing::ids_of;

TEST(Decode, DividesBytesBy255) {
  // Lengths on both sides of vector widths, at every alignment.
  std::vector<std::byte> bytes(256 + 64);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (std::size_t begin = 0; begin < 64; ++begin) {
    std::vector<float> decoded(256 + 1, -1);
    decoder_of(DType::uint8, DType::float32)(bytes.data() + begin,
                                             reinterpret_cast<std::byte*>(decoded.data()), 256);
    for (std::size_t i = 0; i < 256; ++i)
      ASSERT_EQ(decoded[i], static_cast<float>((begin + i) % 256) / 255.0f);
    EXPECT_EQ(decoded[256], -1) << "written behind the end";
  }
}

std::shared_ptr<InMemoryDataset> numbers(int count) {
  std::vector<float> values(static_cast<std::size_t>(count) * 2);
  std::iota(values.begin(), values.end(), 0.5f);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) labels[static_cast<std::size_t>(i)] = i % 3;
  return make_dataset({2, 1}, 3, values, labels);
}

TEST(InMemory, GivesShapesValuesLabelsAndIds) {
  const auto dataset = numbers(5);
  const std::vector<std::int64_t> indices{4, 0, 4};
  const Batch batch = read_batch(*dataset, indices, 7);
  EXPECT_EQ(batch["x"].shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(batch["t"].shape(), Shape{3});
  EXPECT_EQ(batch.epoch(), 7);
  EXPECT_EQ(ids_of(batch), indices);
  const std::vector<float> x(batch["x"].data<float>(), batch["x"].data<float>() + 6);
  EXPECT_EQ(x, (std::vector<float>{8.5, 9.5, 0.5, 1.5, 8.5, 9.5}));
  const auto t = batch["t"].span<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(t.begin(), t.end()), (std::vector<std::int32_t>{1, 0, 1}));
}

TEST(InMemory, KeepsTheShapeOfEmptyBatches) {
  const Batch batch = read_batch(*numbers(5), {});
  EXPECT_EQ(batch.size(), 0);
  EXPECT_EQ(batch["x"].shape(), (Shape{0, 2, 1}));
  EXPECT_EQ(batch["t"].shape(), Shape{0});
}

TEST(InMemory, ChecksIndices) {
  for (const std::int64_t wrong : {-1, 5})
    expect_error(ErrorKind::internal, {std::to_string(wrong)}, [&] {
      read_batch(*numbers(5), std::vector<std::int64_t>{0, wrong});
    });
}

TEST(InMemory, RequiresMatchingLabels) {
  const std::vector<float> values(5);
  const std::vector<std::int32_t> labels(2);
  expect_error(ErrorKind::internal, {"5 values for 2 examples"},
               [&] { make_dataset({2}, 3, values, labels); });
}

TEST(Source, ReadsPiecesAndChecksItsEnd) {
  const auto dataset = numbers(5);
  const auto source = source_of(*dataset);
  RecordBlock block;
  const auto first_x = [&] {
    float x = 0;
    std::memcpy(&x, block.at(0, 0).data(), sizeof(x));
    return x;
  };
  source->read(2, block);
  EXPECT_EQ(first_x(), 0.5f);
  source->read(3, block);
  EXPECT_EQ(first_x(), 4.5f);
  EXPECT_EQ(std::to_integer<int>(block.at(1, 0)[0]), 2);
  expect_error(ErrorKind::internal, {"0 of 5"}, [&] { source->read(1, block); });
}

TEST(Source, CanBeShortenedAndReshaped) {
  const auto dataset = numbers(5);
  const auto source = source_of(*dataset);
  source->keep_first(3);
  source->reshape({2});
  expect_error(ErrorKind::data, {"3 values", "shape 2"}, [&] { source->reshape({3}); });
  const auto copy = read_dataset(*source);
  EXPECT_EQ(copy->size(), 3);
  EXPECT_EQ(testing::shape_in(*copy), Shape{2});
  source_of(*dataset)->keep_first(100);  // more than there are
}

TEST(Source, BoundsBlockSizes) {
  const auto dataset = std::make_shared<InMemoryDataset>(classification_header(5000, {1000}, 10));
  const auto source = source_of(*dataset);
  std::int64_t next = 0;
  for (RecordBlock block; source->read_block(block);) {
    EXPECT_EQ(block.first, next);
    EXPECT_LE(block.bytes(), 1u << 20);
    EXPECT_GE(block.count, 1);
    next += block.count;
  }
  EXPECT_EQ(next, 5000);
}

TEST(Views, SubsetsKeepIds) {
  const auto some = subset_of(numbers(10), {9, 3, 3});
  const auto fewer = subset_of(some, {2, 0});
  EXPECT_EQ(fewer->size(), 2);
  const Batch batch = read_batch(*fewer, std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(ids_of(batch), (std::vector<std::int64_t>{3, 9}));
  EXPECT_EQ(batch["x"].data<float>()[0], 6.5f);
  EXPECT_EQ(batch["x"].data<float>()[2], 18.5f);
  expect_error(ErrorKind::internal, {"example 10"}, [] { subset_of(numbers(10), {10}); });
}

// Case 19 of ChainerMN's tests: length kept, every item empty.
TEST(Views, EmptyDatasetKeepsTheLength) {
  for (const int count : {0, 1, 10}) {
    const auto empty = create_empty_dataset(*numbers(count));
    EXPECT_EQ(empty->size(), count);
    EXPECT_EQ(empty->stored_bytes(), 0u);
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    const Batch batch = read_batch(*empty, all);
    EXPECT_EQ(batch.size(), count);
    EXPECT_EQ(batch["x"].count(), 0);
    for (const std::int32_t label : batch["t"].span<std::int32_t>()) EXPECT_EQ(label, -1);
  }
}

TEST(Views, EmptyDatasetKeepsTheFields) {
  struct Described : Dataset {
    explicit Described(std::vector<Field> fields) : own{3, std::move(fields)} {}
    const DatasetHeader& header() const override { return own; }
    void read(std::int64_t, std::size_t, FieldWriter&) const override { FAIL() << "was read"; }
    DatasetHeader own;
  };
  const Described described({
      {.name = "image", .shape = {3, 8, 8}, .stored = DType::uint8, .is_image_file = true},
      {.name = "words",
       .shape = {0, 2},
       .stored = DType::int32,
       .decoded = DType::int32,
       .is_ragged = true},
      {.name = "size"},
      {.name = "amount", .shape = {1}, .is_target = true},
      {.name = "kinds",
       .shape = {2},
       .stored = DType::uint8,
       .decoded = DType::int64,
       .is_target = true,
       .classes = 4},
  });
  const auto empty = create_empty_dataset(described);
  ASSERT_EQ(empty->size(), 3);
  empty->header().check();
  ASSERT_EQ(empty->header().fields.size(), described.own.fields.size());
  const Batch batch = read_batch(*empty, std::vector<std::int64_t>{0, 1, 2});
  for (const char* const name : {"image", "words", "size", "amount"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(batch[name].shape()[0], 3);
    EXPECT_EQ(batch[name].count(), 0);
    EXPECT_EQ(batch[name].dtype(), described.own.field(name).decoded);
  }
  EXPECT_EQ(batch["image"].shape().rank(), 4);
  EXPECT_EQ(std::ranges::count(batch.lengths("words").span<std::int64_t>(), 0), 3);
  EXPECT_TRUE(empty->header().field("amount").is_target);
  EXPECT_EQ(batch["kinds"].shape(), (Shape{3, 2}));
  EXPECT_EQ(std::ranges::count(batch["kinds"].span<std::int64_t>(), -1), 6);
}

}  // namespace
}  // namespace tasuki

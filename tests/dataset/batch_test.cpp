// Batches as named fields: what is found in them, what is refused, and where values come from.
#include "dataset/batch.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "examples.hpp"
#include "files.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using tasuki::testing::expect_error;
using tasuki::testing::ids_of;

Tensor counted(const Shape& shape, DType dtype = DType::float32) {
  const Tensor made = Tensor::empty(shape);
  std::iota(made.data<float>(), made.data<float>() + made.count(), 0.0F);
  return made.to(dtype);
}

Batch three_examples() {
  return {{{.name = "x", .values = counted({3, 2})},
           {.name = "words",
            .values = counted({3, 4}, DType::int32),
            .lengths = Tensor::from(
                std::span<const std::int64_t>(std::vector<std::int64_t>{4, 1, 2}), {3})},
           {.name = "t", .values = counted({3, 1}), .is_target = true}},
          {7, 8, 9},
          5};
}

TEST(Batch, FindsFieldsByName) {
  const Batch batch = three_examples();
  EXPECT_EQ(batch.size(), 3);
  EXPECT_EQ(batch.epoch(), 5);
  EXPECT_EQ(batch.global_size(), std::nullopt);
  EXPECT_EQ(batch["x"].shape(), (Shape{3, 2}));
  EXPECT_EQ(batch["words"].dtype(), DType::int32);
  EXPECT_EQ(batch.lengths("words").span<std::int64_t>()[1], 1);
  EXPECT_TRUE(batch.has("t"));
  EXPECT_FALSE(batch.has("y"));
  expect_error(ErrorKind::usage, {"no field 'y'", "x, words, t"}, [&] { batch["y"]; });
  expect_error(ErrorKind::usage, {"'x' has no lengths"}, [&] { batch.lengths("x"); });
  expect_error(ErrorKind::usage, {"none"}, [&] { Batch()["x"]; });
}

TEST(Batch, RejectsFieldsOfAnotherSize) {
  expect_error(ErrorKind::internal, {"field 'x' has 3 items", "2 examples"}, [] {
    return Batch({{.name = "x", .values = counted({3, 2})}}, {0, 1});
  });
  Batch batch = three_examples();
  expect_error(ErrorKind::internal, {"field 'one'"},
               [&] { batch.set({.name = "one", .values = counted({})}); });
  expect_error(ErrorKind::internal, {"field 'empty'"}, [&] { batch.set({.name = "empty"}); });
  expect_error(ErrorKind::internal, {"lengths of shape 2"}, [&] {
    batch.set({.name = "x", .values = counted({3, 2}), .lengths = Tensor::zeros({2})});
  });
}

TEST(Batch, SetAddsOrReplacesAField) {
  Batch batch = three_examples();
  batch.set({.name = "x", .values = counted({3, 5})});
  batch.set({.name = "mask", .values = counted({3})});
  EXPECT_EQ(batch.fields().size(), 4U);
  EXPECT_EQ(batch["x"].shape(), (Shape{3, 5}));
  EXPECT_EQ(batch["mask"].shape(), Shape{3});
}

TEST(Batch, SlicesAllFields) {
  Batch batch = three_examples();
  batch.set_global_size(12);
  const Batch part = batch.slice(1, 3);
  EXPECT_EQ(ids_of(part), (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(part.epoch(), 5);
  EXPECT_EQ(part.global_size(), std::nullopt);
  EXPECT_EQ(part["x"].data<float>()[0], 2);
  EXPECT_EQ(part["t"].shape(), (Shape{2, 1}));
  EXPECT_EQ(part.lengths("words").data<std::int64_t>()[1], 2);
  const Batch none = batch.slice(3, 3);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none["x"].shape(), (Shape{0, 2}));
  expect_error(ErrorKind::internal, {"examples 2 to 4 of 3"}, [&] { batch.slice(2, 4); });
}

TEST(Batch, KeepsTypesOfTargetsAndIdsInHalfPrecision) {
  const Batch batch = three_examples().to(Device::cpu(), DType::bfloat16);
  EXPECT_EQ(batch["x"].dtype(), DType::bfloat16);
  EXPECT_EQ(batch["words"].dtype(), DType::int32);
  EXPECT_EQ(batch["t"].dtype(), DType::float32);
  EXPECT_EQ(batch.lengths("words").dtype(), DType::int64);
  EXPECT_EQ(batch.to(Device::cpu())["x"].dtype(), DType::bfloat16) << "types stay";
}

// Rows of a table, by the positions that it is sent.
struct Table final : FieldSource {
  Tensor values = counted({10, 2});
  mutable int made = 0;
  Device device() const override { return Device::cpu(); }
  Shape shape(std::int64_t examples) const override { return {examples, 2}; }
  Tensor make(const Tensor& rows, DType dtype) const override {
    ++made;
    const std::int64_t n = (rows.count() - 1) / 2;
    return backend(device()).gather(values, rows.slice(1, 1 + n), DType::float32).to(dtype);
  }
};

TEST(Batch, CreatesFieldsLazily) {
  const auto table = std::make_shared<Table>();
  Batch batch({{.name = "x", .source = table}}, {70, 80, 90}, 2);
  expect_error(ErrorKind::internal, {"0 positions for 3 examples"}, [&] { batch["x"]; });
  batch.set_positions({4, 0, 9});
  EXPECT_EQ(batch.rows(), (std::vector<std::int64_t>{2, 4, 0, 9, 70, 80, 90}));
  EXPECT_EQ(table->made, 0);
  EXPECT_EQ(batch["x"].data<float>()[0], 8);
  EXPECT_EQ(batch["x"].data<float>()[4], 18);
  EXPECT_EQ(table->made, 1) << "once only";
  Batch again({{.name = "x", .source = table}}, {70, 80, 90}, 2);
  again.set_positions({4, 0, 9});
  const Batch part = again.slice(1, 3);
  EXPECT_EQ(part["x"].shape(), (Shape{2, 2}));
  EXPECT_EQ(part["x"].data<float>()[2], 18);
  EXPECT_EQ(again.to(Device::cpu(), DType::bfloat16)["x"].dtype(), DType::bfloat16);
  expect_error(ErrorKind::internal, {"field 'x' has 2 items"}, [&] {
    struct Fixed final : FieldSource {
      Device device() const override { return Device::cpu(); }
      Shape shape(std::int64_t) const override { return {2, 2}; }
      Tensor make(const Tensor&, DType) const override { return {}; }
    };
    batch.set({.name = "x", .source = std::make_shared<Fixed>()});
  });
}

// As if the shards had been read by themselves.
TEST(Batch, IsDividedIntoShards) {
  Batch batch = three_examples();
  EXPECT_TRUE(batch.shards().empty());
  expect_error(ErrorKind::internal, {"shards of 2 examples", "batch of 3"}, [&] {
    batch.set_shards({1, 1});
  });
  batch.set_shards({1, 0, 2});
  const Batch first = batch.shard(0), none = batch.shard(1), last = batch.shard(2);
  EXPECT_EQ(ids_of(first), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(ids_of(last), (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(last.epoch(), 5);
  EXPECT_EQ(first["words"].shape(), (Shape{1, 4}));
  EXPECT_EQ(last["words"].shape(), (Shape{2, 2})) << "padded to its longest example";
  const auto words = last["words"].span<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(words.begin(), words.end()),
            (std::vector<std::int32_t>{4, 5, 8, 9}));
  EXPECT_EQ(last["x"].data<float>()[0], 2);
  EXPECT_TRUE(last.shards().empty());
  expect_error(ErrorKind::internal, {"shard 3 of 3"}, [&] { batch.shard(3); });
  BatchField padded = batch.fields()[1];
  padded.pad_to = 3;
  batch.set(padded);
  EXPECT_EQ(batch.shard(2)["words"].shape(), (Shape{2, 3})) << "to a multiple of 3";
}

}  // namespace
}  // namespace tasuki

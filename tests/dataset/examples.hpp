// A small data set whose examples say which they are, and what batches of it must hold.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "dataset/in_memory.hpp"
#include "dataset/iterators/iterator.hpp"

namespace tasuki::testing {

// Example i is (i, -i) with label i % 5.
inline std::shared_ptr<InMemoryDataset> numbered_examples(std::int64_t count) {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i));
    values.push_back(static_cast<float>(-i));
    labels.push_back(static_cast<std::int32_t>(i % 5));
  }
  return make_dataset({2}, 5, values, labels);
}

// Example i of a field as stored (image files decoded).
inline std::vector<std::byte> stored_in(const Dataset& dataset, const char* field, std::int64_t i) {
  StoredField stored(dataset, dataset.header().index_of(field));
  const auto bytes = stored.decoded(i);
  return {bytes.begin(), bytes.end()};
}
inline std::int32_t label_in(const Dataset& dataset, std::int64_t i) {
  std::int32_t label = -1;
  std::memcpy(&label, stored_in(dataset, "t", i).data(), sizeof(label));
  return label;
}
inline const Shape& shape_in(const Dataset& dataset) {
  return dataset.header().field("x").shape;
}
inline std::int64_t classes_in(const Dataset& dataset) {
  return dataset.header().field("t").classes;
}
// An example for classification, numbered as in the whole data set.
inline void set_example(InMemoryDataset& dataset, std::int64_t i, std::span<const std::byte> values,
                        std::int32_t label) {
  const std::span<const std::byte> fields[] = {values, std::as_bytes(std::span(&label, 1))};
  dataset.set(i, i, fields);
}

inline std::vector<std::int64_t> ids_of(const Batch& batch) {
  return {batch.ids().begin(), batch.ids().end()};
}

inline void expect_numbered(const Batch& batch) {
  ASSERT_EQ(batch["x"].shape(), (Shape{batch.size(), 2}));
  ASSERT_EQ(batch["t"].shape(), Shape{batch.size()});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int64_t id = batch.ids()[static_cast<std::size_t>(i)];
    EXPECT_EQ(batch["x"].data<float>()[2 * i], static_cast<float>(id));
    EXPECT_EQ(batch["x"].data<float>()[2 * i + 1], static_cast<float>(-id));
    EXPECT_EQ(batch["t"].data<std::int32_t>()[i], id % 5);
  }
}

// All that a caller sees of an iterator around one batch.
struct Step {
  std::int64_t global_size, epoch;
  std::vector<std::int64_t> ids;
  IteratorState after;
  friend bool operator==(const Step&, const Step&) = default;
};

inline std::vector<Step> take(Iterator& iterator, std::int64_t steps) {
  std::vector<Step> taken;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch batch = iterator.next();
    expect_numbered(batch);
    taken.push_back(
        {batch.global_size().value_or(-1), batch.epoch(), ids_of(batch), iterator.state()});
  }
  return taken;
}

}  // namespace tasuki::testing

// A small data set with fields of all kinds: of two types, of unlike lengths, and targets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "dataset/in_memory.hpp"

namespace tasuki::testing {

// Example i has i * 3 % 5 tokens i, i + 1, ..., a row of two bytes, and the target i / 2.
inline DatasetHeader sequences_header(std::int64_t count, std::int64_t pad_to = 1) {
  return {count,
          {{.name = "tokens",
            .shape = {0},
            .stored = DType::int32,
            .decoded = DType::int32,
            .is_ragged = true,
            .padding = -1,
            .pad_to = pad_to},
           {.name = "bytes", .shape = {2}, .stored = DType::uint8, .decoded = DType::int64},
           {.name = "y", .shape = {1}, .is_target = true}}};
}
inline std::int64_t length_of(std::int64_t i) {
  return i * 3 % 5;
}

inline std::shared_ptr<InMemoryDataset> sequences(std::int64_t count, std::int64_t pad_to = 1) {
  auto dataset = std::make_shared<InMemoryDataset>(sequences_header(count, pad_to));
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t j = 0; j < length_of(i); ++j)
      tokens.push_back(static_cast<std::int32_t>(i + j));
    const std::uint8_t bytes[] = {static_cast<std::uint8_t>(i % 256), 255};
    const float y = static_cast<float>(i) / 2;
    const std::span<const std::byte> example[] = {std::as_bytes(std::span(tokens)),
                                                  std::as_bytes(std::span(bytes)),
                                                  std::as_bytes(std::span(&y, 1))};
    dataset->set(i, i, example);
  }
  return dataset;
}

// Whether a batch holds what its ids say, padded as far as its longest example asks for.
inline void expect_sequences(const Batch& on_device, std::int64_t pad_to = 1) {
  const Batch batch = on_device.to(Device::cpu());
  std::int64_t longest = 0;
  for (const std::int64_t id : batch.ids()) longest = std::max(longest, length_of(id));
  const std::int64_t length = (longest + pad_to - 1) / pad_to * pad_to;
  ASSERT_EQ(batch["tokens"].shape(), (Shape{batch.size(), length}));
  ASSERT_EQ(batch["bytes"].shape(), (Shape{batch.size(), 2}));
  ASSERT_EQ(batch["y"].shape(), (Shape{batch.size(), 1}));
  for (std::int64_t row = 0; row < batch.size(); ++row) {
    const std::int64_t id = batch.ids()[static_cast<std::size_t>(row)];
    ASSERT_EQ(batch.lengths("tokens").data<std::int64_t>()[row], length_of(id));
    for (std::int64_t j = 0; j < length; ++j)
      ASSERT_EQ(batch["tokens"].data<std::int32_t>()[row * length + j],
                j < length_of(id) ? id + j : -1)
          << "token " << j << " of example " << id;
    EXPECT_EQ(batch["bytes"].data<std::int64_t>()[2 * row], id % 256);
    EXPECT_EQ(batch["bytes"].data<std::int64_t>()[2 * row + 1], 255);
    EXPECT_EQ(batch["y"].data<float>()[row], static_cast<float>(id) / 2);
  }
}

}  // namespace tasuki::testing

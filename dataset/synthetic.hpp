// A data set of random patterns, of any size and shape: for benchmarks, tests and machines without
// data.
#pragma once

#include <cstdint>

#include "dataset/dataset.hpp"

namespace tasuki {

struct SyntheticOptions {
  std::int64_t count = 60000;
  Shape example_shape{784};
  std::int64_t classes = 10;
  std::uint64_t seed = 0;   // determines the patterns of the classes
  std::uint64_t split = 0;  // another split of the same seed: new examples of the same classes
};

// Every class has a pattern of random pixels; an example is its class's faint pattern plus noise.
// Pixels and labels are functions of (seed, split, example); nothing is stored.
class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(const SyntheticOptions& options);

  const DatasetHeader& header() const override { return header_; }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override;

 private:
  std::int32_t label_of(std::int64_t i) const;

  DatasetHeader header_;
  std::uint64_t seed_, split_;
};

}  // namespace tasuki

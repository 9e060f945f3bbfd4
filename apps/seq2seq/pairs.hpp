// Pairs of numbered sentences as a data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/dataset.hpp"

namespace tasuki::seq2seq {

// Word numbers, one sentence after the other in memory.
class NumberPairs {
 public:
  // Reserves room for this many pairs, with this many words in total.
  void reserve(std::int64_t pairs, std::int64_t words);
  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target);

  std::int64_t size() const { return std::ssize(ends_) / 2; }
  std::span<const std::int32_t> source(std::int64_t i) const { return sentence(2 * i); }
  std::span<const std::int32_t> target(std::int64_t i) const { return sentence(2 * i + 1); }
  std::size_t bytes() const;

 private:
  std::span<const std::int32_t> sentence(std::int64_t number) const;

  std::vector<std::int32_t> numbers_;
  std::vector<std::size_t> ends_;  // in `numbers_`, of each source and of each target
};

// Fields "x" (the source, reversed as in ChainerMN's example, so that its first words are nearest
// to the target's), "y" (eos, then the target) and "t" (the target, then eos; padded with -1, which
// does not count). The fields are made when they are read.
std::shared_ptr<const Dataset> make_pairs_dataset(NumberPairs pairs, std::int64_t source_words,
                                                  std::int64_t target_words);

}  // namespace tasuki::seq2seq

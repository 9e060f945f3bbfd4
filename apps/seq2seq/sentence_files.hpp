// Files of sentences and their translations as the data sets of train_seq2seq.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "seq2seq/pairs.hpp"

namespace tasuki::seq2seq {

struct SentenceFileSettings {
  std::filesystem::path source, target;
  // Both or none; without them the last twentieth of the pairs, at least one and at most 1000, is
  // held out.
  std::optional<std::filesystem::path> test_source, test_target;
  std::int64_t words = 0;    // of each vocabulary at most, <eos> and <unk> included
  std::int64_t longest = 0;  // words of a training sentence at most; 0: any number
};

// On the rank that reads them.
class SentenceFiles {
 public:
  explicit SentenceFiles(const SentenceFileSettings& settings);

  const Vocabulary& from() const { return from_; }
  const Vocabulary& to() const { return to_; }
  const TextPairs& test_text() const { return test_text_; }
  std::shared_ptr<const Dataset> train() const { return dataset_of(train_); }
  std::shared_ptr<const Dataset> test() const { return dataset_of(test_); }
  // For a banner: how many words are known, and how many pairs are used.
  std::vector<std::pair<std::string, std::string>> summary() const;

 private:
  std::shared_ptr<const Dataset> dataset_of(const std::vector<NumberPair>& pairs) const;

  Vocabulary from_{std::vector<std::string>()}, to_{std::vector<std::string>()};
  TextPairs test_text_;
  std::vector<NumberPair> train_, test_;
  std::int64_t left_out_ = 0, longest_ = 0;
};

}  // namespace tasuki::seq2seq

// The data sets of train_seq2seq from files of sentences and their translations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/seq2seq/pairs.hpp"
#include "apps/seq2seq/text_pairs.hpp"
#include "apps/seq2seq/vocabulary.hpp"

namespace tasuki::seq2seq {

struct SentenceFileSettings {
  std::filesystem::path source, target;
  // Both or none; without them, the last twentieth of the pairs is held out, at least one and at
  // most 1000.
  std::optional<std::filesystem::path> test_source, test_target;
  std::int64_t words = 0;    // at most in each vocabulary, <eos> and <unk> included
  std::int64_t longest = 0;  // at most in a training sentence; 0: any number of words
  // The number of first pairs to use of each kind; vocabularies always come from all training
  // pairs.
  std::optional<std::int64_t> examples, test_examples;
};

// For the rank that reads the files. Keeps only the text of held-out pairs: the constructor reads
// the training files once for the vocabularies, and train() reads them again.
class SentenceFiles {
 public:
  explicit SentenceFiles(SentenceFileSettings settings);

  const Vocabulary& from() const { return from_; }
  const Vocabulary& to() const { return to_; }
  // All of them.
  TextPairs test_text() const;
  // Files that have changed since the constructor read them are an error of kind data.
  std::shared_ptr<const Dataset> train() const;
  std::shared_ptr<const Dataset> test();
  // For a banner, after test(): the numbers of known words and of used pairs.
  std::vector<std::pair<std::string, std::string>> summary() const;

 private:
  // The number of words of test sentences, and of those that are not in the vocabulary.
  struct Coverage {
    std::int64_t words = 0, unknown = 0;

    void add(std::span<const std::int32_t> sentence);
    double percent_unknown() const;
  };

  SentenceFileSettings settings_;
  Vocabulary from_{std::vector<std::string>()}, to_{std::vector<std::string>()};
  TextPairs held_out_;
  // Training pairs to use and their words, and pairs that are too long.
  std::int64_t used_ = 0, used_words_ = 0, left_out_ = 0;
  std::int64_t tested_ = 0;
  Coverage source_coverage_, target_coverage_;
};

}  // namespace tasuki::seq2seq

// Pairs of sentences as a data set: from text files, with vocabularies of the most frequent words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tasuki/dataset/dataset.hpp"

namespace tasuki::seq2seq {

// Numbers of words: 0 is the end of a sentence, 1 any word that is not in the vocabulary.
class Vocabulary {
 public:
  static constexpr std::int32_t eos = 0, unknown = 1;

  // The `most` - 2 words that occur most often; among equally frequent ones those that come first
  // in the alphabet.
  Vocabulary(const std::vector<std::vector<std::string>>& sentences, std::int64_t most);
  // These words, from number 2 on.
  explicit Vocabulary(std::vector<std::string> words);

  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  std::int32_t number(const std::string& word) const;
  const std::string& word(std::int32_t number) const {
    return words_.at(static_cast<std::size_t>(number));
  }
  std::vector<std::int32_t> numbers(const std::vector<std::string>& sentence) const;

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

// A target for comparison with translations: words that are not in the vocabulary become -1, so
// that a translation's unknown word is never right.
std::vector<std::int32_t> answer_of(std::vector<std::int32_t> target);

struct TextPairs {
  std::vector<std::vector<std::string>> source, target;  // words; equally many sentences
  std::int64_t too_long = 0;                             // pairs that were left out for that
};
// Two files with one sentence a line, words by ASCII's white space, plain or gzip-compressed, in
// UTF-8 or any other encoding that extends ASCII. Left out are pairs of which one has no words, or
// more than `longest` (0: any number). Files without pairs, with different numbers of lines, and
// with bytes 0 (UTF-16) are errors of kind data.
TextPairs read_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                     std::int64_t longest);

struct NumberPair {
  std::vector<std::int32_t> source, target;
};
// Fields "x" (the source, reversed as in ChainerMN's example, so that its first words are nearest
// to the target's), "y" (eos, then the target) and "t" (the target, then eos; padded with -1, which
// does not count).
std::shared_ptr<const Dataset> make_pairs_dataset(const std::vector<NumberPair>& pairs,
                                                  std::int64_t source_words,
                                                  std::int64_t target_words);

}  // namespace tasuki::seq2seq

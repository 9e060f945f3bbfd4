// Vocabularies: the words that have numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tasuki::seq2seq {

// Allows searching maps of strings by views, without a copy.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const {
    return std::hash<std::string_view>()(word);
  }
};
template <class Value>
using WordMap = std::unordered_map<std::string, Value, WordHash, std::equal_to<>>;

// How often each word occurs in a text.
class WordCounts {
 public:
  void add(std::string_view word);
  // The `most` most frequent words, the most frequent first, equally frequent ones in alphabetical
  // order. <eos> and <unk> are left out.
  std::vector<std::string> most_frequent(std::size_t most) const;

 private:
  WordMap<std::int64_t> counts_;
};

// Word numbers: 0 is the end of a sentence, 1 any word that is not in the vocabulary.
class Vocabulary {
 public:
  static constexpr std::int32_t eos = 0, unknown = 1;

  // The `most` - 2 most frequent words.
  Vocabulary(const WordCounts& counts, std::int64_t most);
  // These words, from number 2 on.
  explicit Vocabulary(std::vector<std::string> words);

  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  std::int32_t number(std::string_view word) const;
  const std::string& word(std::int32_t number) const {
    return words_.at(static_cast<std::size_t>(number));
  }
  std::vector<std::int32_t> numbers(std::span<const std::string> sentence) const;
  // A hash of all words in the order of their numbers, saved in files.
  std::uint64_t hash() const;

 private:
  std::vector<std::string> words_;
  WordMap<std::int32_t> numbers_;
};

// A target for comparison with translations: words that are not in the vocabulary become -1, so
// that a translation's unknown word is never right.
std::vector<std::int32_t> answer_of(std::vector<std::int32_t> target);

}  // namespace tasuki::seq2seq

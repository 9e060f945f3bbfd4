#include "apps/seq2seq/vocabulary.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/hash.hpp"
#include "core/printable.hpp"

namespace tasuki::seq2seq {

void WordCounts::add(std::string_view word) {
  if (const auto found = counts_.find(word); found != counts_.end())
    ++found->second;
  else
    counts_.emplace(word, 1);
}

std::vector<std::string> WordCounts::most_frequent(std::size_t most) const {
  std::vector<const std::pair<const std::string, std::int64_t>*> order;
  for (const auto& entry : counts_)
    if (entry.first != "<eos>" && entry.first != "<unk>") order.push_back(&entry);
  const auto kept = order.begin() + static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::ranges::partial_sort(order, kept, [](const auto* left, const auto* right) {
    return left->second != right->second ? left->second > right->second
                                         : left->first < right->first;
  });
  std::vector<std::string> words;
  for (auto at = order.begin(); at != kept; ++at) words.push_back((*at)->first);
  return words;
}

Vocabulary::Vocabulary(std::vector<std::string> words) : words_{"<eos>", "<unk>"} {
  words_.insert(words_.end(), std::make_move_iterator(words.begin()),
                std::make_move_iterator(words.end()));
  for (std::size_t i = 0; i < words_.size(); ++i)
    numbers_.emplace(words_[i], static_cast<std::int32_t>(i));
}

Vocabulary::Vocabulary(const WordCounts& counts, std::int64_t most)
    : Vocabulary(
          counts.most_frequent(static_cast<std::size_t>(std::max<std::int64_t>(0, most - 2)))) {}

std::int32_t Vocabulary::number(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() || found->second == eos ? unknown : found->second;
}

std::vector<std::int32_t> Vocabulary::numbers(std::span<const std::string> sentence) const {
  std::vector<std::int32_t> made;
  for (const std::string& word : sentence) made.push_back(number(word));
  return made;
}

std::uint64_t Vocabulary::hash() const {
  return hash_text(join(words_, "\n"));
}

std::vector<std::int32_t> answer_of(std::vector<std::int32_t> target) {
  std::ranges::replace(target, Vocabulary::unknown, -1);
  return target;
}

}  // namespace tasuki::seq2seq

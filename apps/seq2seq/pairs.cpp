#include "seq2seq/pairs.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "tasuki/dataset/files/text_file.hpp"
#include "tasuki/dataset/in_memory.hpp"

namespace tasuki::seq2seq {
namespace {

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r\v\f";
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(blanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// Lines with words by their numbers from 1 on, and the number of all lines.
std::pair<std::map<std::int64_t, std::vector<std::string>>, std::int64_t> read_lines(
    const std::filesystem::path& path) {
  TextFile file(path);
  std::map<std::int64_t, std::vector<std::string>> lines;
  for (std::string_view line; file.next(line);) {
    if (line.find('\0') != std::string_view::npos)
      fail(ErrorKind::data,
           "{}: expected text in UTF-8, found a byte of value 0; convert UTF-16 with iconv",
           file.place());
    if (std::vector<std::string> words = words_of(line); !words.empty())
      lines[file.number()] = std::move(words);
  }
  return {std::move(lines), file.number()};
}

Field ids(const char* name, std::int64_t classes, std::int64_t longest) {
  return {.name = name,
          .shape = {longest},
          .stored = DType::int32,
          .decoded = DType::int32,
          .classes = classes,
          .is_ragged = true};
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> words) : words_{"<eos>", "<unk>"} {
  words_.insert(words_.end(), std::make_move_iterator(words.begin()),
                std::make_move_iterator(words.end()));
  for (std::size_t i = 0; i < words_.size(); ++i)
    numbers_.emplace(words_[i], static_cast<std::int32_t>(i));
}

namespace {

std::vector<std::string> most_frequent(const std::vector<std::vector<std::string>>& sentences,
                                       std::int64_t most) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& sentence : sentences)
    for (const std::string& word : sentence) ++counts[word];
  std::vector<std::string> words;
  for (const auto& [word, count] : counts)
    if (word != "<eos>" && word != "<unk>") words.push_back(word);
  std::ranges::stable_sort(words, std::ranges::greater{},
                           [&](const std::string& word) { return counts.at(word); });
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(0, most - 2));
  words.resize(std::min(words.size(), kept));
  return words;
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::vector<std::string>>& sentences, std::int64_t most)
    : Vocabulary(most_frequent(sentences, most)) {}

std::int32_t Vocabulary::number(const std::string& word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() || found->second == eos ? unknown : found->second;
}

std::vector<std::int32_t> Vocabulary::numbers(const std::vector<std::string>& sentence) const {
  std::vector<std::int32_t> made;
  for (const std::string& word : sentence) made.push_back(number(word));
  return made;
}

std::vector<std::int32_t> answer_of(std::vector<std::int32_t> target) {
  std::ranges::replace(target, Vocabulary::unknown, -1);
  return target;
}

TextPairs read_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                     std::int64_t longest) {
  auto [left, left_lines] = read_lines(source);
  auto [right, right_lines] = read_lines(target);
  if (left.empty() || right.empty())
    fail(ErrorKind::data, "{}: expected sentences, one a line, found none",
         (left.empty() ? source : target).string());
  if (left_lines != right_lines)
    fail(ErrorKind::data,
         "{} has {} lines and {} has {}: expected as many, line i of one being the translation of "
         "line i of the other",
         source.string(), left_lines, target.string(), right_lines);
  TextPairs pairs;
  const auto fits = [&](const std::vector<std::string>& words) {
    return longest == 0 || std::ssize(words) <= longest;
  };
  for (auto& [line, words] : left) {
    const auto other = right.find(line);
    if (other == right.end()) continue;
    if (!fits(words) || !fits(other->second)) {
      ++pairs.too_long;
      continue;
    }
    pairs.source.push_back(std::move(words));
    pairs.target.push_back(std::move(other->second));
  }
  if (pairs.source.empty())
    fail(ErrorKind::data, "{} and {}: expected pairs of sentences, found none with {}",
         source.string(), target.string(),
         longest == 0 ? "words on both sides"
                      : fmt::format("1 to {} words each; raise --max-length", longest));
  return pairs;
}

std::shared_ptr<const Dataset> make_pairs_dataset(const std::vector<NumberPair>& pairs,
                                                  std::int64_t source_words,
                                                  std::int64_t target_words) {
  std::int64_t longest_source = 0, longest_target = 0;
  for (const NumberPair& pair : pairs) {
    longest_source = std::max(longest_source, std::ssize(pair.source));
    longest_target = std::max(longest_target, std::ssize(pair.target) + 1);
  }
  Field t = ids("t", target_words, longest_target);
  t.is_target = true;
  t.ignored_label = -1;
  t.padding = -1;
  auto made = std::make_shared<InMemoryDataset>(
      DatasetHeader{std::ssize(pairs),
                    {ids("x", source_words, longest_source), ids("y", target_words, longest_target),
                     std::move(t)}});
  for (std::int64_t i = 0; i < std::ssize(pairs); ++i) {
    const NumberPair& pair = pairs[static_cast<std::size_t>(i)];
    const std::vector<std::int32_t> x(pair.source.rbegin(), pair.source.rend());
    std::vector<std::int32_t> y = {Vocabulary::eos}, answer = pair.target;
    y.insert(y.end(), pair.target.begin(), pair.target.end());
    answer.push_back(Vocabulary::eos);
    const std::array<std::span<const std::byte>, 3> fields = {
        std::as_bytes(std::span(x)), std::as_bytes(std::span(y)), std::as_bytes(std::span(answer))};
    made->set(i, i, fields);
  }
  return made;
}

}  // namespace tasuki::seq2seq

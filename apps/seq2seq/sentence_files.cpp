#include "seq2seq/sentence_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tasuki/core/error.hpp"

namespace tasuki::seq2seq {
namespace {

// The last twentieth, which `text` then lacks.
TextPairs take_last(TextPairs& text) {
  const std::ptrdiff_t all = std::ssize(text.source);
  if (all < 2)
    fail(ErrorKind::data,
         "--source and --target have one pair of sentences, expected at least 2: one to train on "
         "and one to test with");
  const std::ptrdiff_t held_out = std::clamp<std::ptrdiff_t>(all / 20, 1, 1000);
  TextPairs taken;
  const auto move_last = [&](auto& from, auto& to) {
    to.assign(from.end() - held_out, from.end());
    from.erase(from.end() - held_out, from.end());
  };
  move_last(text.source, taken.source);
  move_last(text.target, taken.target);
  return taken;
}

std::vector<NumberPair> numbers_of(const TextPairs& text, const Vocabulary& from,
                                   const Vocabulary& to) {
  std::vector<NumberPair> pairs;
  for (std::size_t i = 0; i < text.source.size(); ++i)
    pairs.push_back({from.numbers(text.source[i]), to.numbers(text.target[i])});
  return pairs;
}

// How much of one side of the test sentences is not in the vocabulary, in percent.
double unknown_part(const std::vector<NumberPair>& pairs,
                    std::vector<std::int32_t> NumberPair::*side) {
  std::int64_t words = 0, unknown = 0;
  for (const NumberPair& pair : pairs) {
    words += std::ssize(pair.*side);
    unknown += std::ranges::count(pair.*side, Vocabulary::unknown);
  }
  return 100.0 * static_cast<double>(unknown) / static_cast<double>(words);
}

}  // namespace

SentenceFiles::SentenceFiles(const SentenceFileSettings& settings) : longest_(settings.longest) {
  TextPairs text = read_pairs(settings.source, settings.target, settings.longest);
  left_out_ = text.too_long;
  if (!settings.test_source) test_text_ = take_last(text);
  from_ = Vocabulary(text.source, settings.words);
  to_ = Vocabulary(text.target, settings.words);
  train_ = numbers_of(text, from_, to_);
  // All test pairs, however long.
  if (settings.test_source)
    test_text_ = read_pairs(*settings.test_source, *settings.test_target, 0);
  test_ = numbers_of(test_text_, from_, to_);
}

std::shared_ptr<const Dataset> SentenceFiles::dataset_of(
    const std::vector<NumberPair>& pairs) const {
  return make_pairs_dataset(pairs, from_.size(), to_.size());
}

std::vector<std::pair<std::string, std::string>> SentenceFiles::summary() const {
  std::string pairs = fmt::format("{} to train on, {} to test with", train_.size(), test_.size());
  if (left_out_ > 0)
    pairs +=
        fmt::format("; {} left out, of more than {} words (--max-length)", left_out_, longest_);
  return {{"Sentences", pairs},
          {"Vocabulary",
           fmt::format("{} and {} words, which lack {:.1f} % and {:.1f} % of the test sentences'",
                       from_.size(), to_.size(), unknown_part(test_, &NumberPair::source),
                       unknown_part(test_, &NumberPair::target))}};
}

}  // namespace tasuki::seq2seq

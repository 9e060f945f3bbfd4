#include "apps/seq2seq/sentence_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "core/error.hpp"

namespace tasuki::seq2seq {
namespace {

constexpr std::int64_t most_held_out = 1000;

using Sentence = std::vector<std::string>;
struct TextPair {
  Sentence source, target;
};

// Counts of the training pairs.
struct Counts {
  WordCounts source, target;
  std::int64_t pairs = 0, used = 0, used_words = 0;

  void add(const auto& source_words, const auto& target_words, std::int64_t limit) {
    for (const auto& word : source_words) source.add(word);
    for (const auto& word : target_words) target.add(word);
    if (pairs++ >= limit) return;
    ++used;
    used_words += std::ssize(source_words) + std::ssize(target_words);
  }
};

// Counts all pairs except the last twentieth, which it returns. A pair waits until as many pairs
// have followed as may be held out.
TextPairs hold_out_last(PairReader& reader, Counts& counts, std::int64_t limit) {
  std::deque<TextPair> last;
  std::int64_t all = 0;
  const auto count_first = [&] {
    counts.add(last.front().source, last.front().target, limit);
    last.pop_front();
  };
  for (; reader.next(); ++all) {
    last.push_back({{reader.source().begin(), reader.source().end()},
                    {reader.target().begin(), reader.target().end()}});
    if (std::ssize(last) > most_held_out) count_first();
  }
  if (all < 2)
    fail(ErrorKind::data,
         "--source and --target have one pair of sentences, expected at least 2: one to train on "
         "and one to test with");
  const std::int64_t held_out = std::clamp<std::int64_t>(all / 20, 1, most_held_out);
  while (std::ssize(last) > held_out) count_first();
  TextPairs taken;
  for (TextPair& pair : last) {
    taken.source.push_back(std::move(pair.source));
    taken.target.push_back(std::move(pair.target));
  }
  return taken;
}

void number(const auto& words, const Vocabulary& vocabulary, std::vector<std::int32_t>& numbers) {
  numbers.clear();
  for (const auto& word : words) numbers.push_back(vocabulary.number(word));
}

}  // namespace

SentenceFiles::SentenceFiles(SentenceFileSettings settings) : settings_(std::move(settings)) {
  const std::int64_t limit = settings_.examples.value_or(INT64_MAX);
  PairReader reader(settings_.source, settings_.target, settings_.longest);
  Counts counts;
  if (settings_.test_source)
    while (reader.next()) counts.add(reader.source(), reader.target(), limit);
  else
    held_out_ = hold_out_last(reader, counts, limit);
  from_ = Vocabulary(counts.source, settings_.words);
  to_ = Vocabulary(counts.target, settings_.words);
  used_ = counts.used;
  used_words_ = counts.used_words;
  left_out_ = reader.too_long();
}

std::shared_ptr<const Dataset> SentenceFiles::train() const {
  NumberPairs pairs;
  pairs.reserve(used_, used_words_);
  std::vector<std::int32_t> source, target;
  std::int64_t words = 0;
  PairReader reader(settings_.source, settings_.target, settings_.longest);
  while (pairs.size() < used_ && reader.next()) {
    number(reader.source(), from_, source);
    number(reader.target(), to_, target);
    words += std::ssize(source) + std::ssize(target);
    pairs.add(source, target);
  }
  if (pairs.size() != used_ || words != used_words_)
    fail(ErrorKind::data,
         "{} and {} changed between the two times that they are read: expected files that do not "
         "change, not pipes",
         settings_.source.string(), settings_.target.string());
  return make_pairs_dataset(std::move(pairs), from_.size(), to_.size());
}

std::shared_ptr<const Dataset> SentenceFiles::test() {
  const std::int64_t limit = settings_.test_examples.value_or(INT64_MAX);
  NumberPairs pairs;
  source_coverage_ = target_coverage_ = {};
  std::vector<std::int32_t> source, target;
  const auto add = [&](const auto& source_words, const auto& target_words) {
    number(source_words, from_, source);
    number(target_words, to_, target);
    source_coverage_.add(source);
    target_coverage_.add(target);
    pairs.add(source, target);
  };
  if (settings_.test_source) {
    // All of them, however long.
    PairReader reader(*settings_.test_source, *settings_.test_target, 0);
    while (reader.next())
      if (pairs.size() < limit) add(reader.source(), reader.target());
  }
  for (std::size_t i = 0; i < held_out_.source.size() && pairs.size() < limit; ++i)
    add(held_out_.source[i], held_out_.target[i]);
  tested_ = pairs.size();
  return make_pairs_dataset(std::move(pairs), from_.size(), to_.size());
}

TextPairs SentenceFiles::test_text() const {
  return settings_.test_source ? read_pairs(*settings_.test_source, *settings_.test_target, 0)
                               : held_out_;
}

void SentenceFiles::Coverage::add(std::span<const std::int32_t> sentence) {
  words += std::ssize(sentence);
  unknown += std::ranges::count(sentence, Vocabulary::unknown);
}

double SentenceFiles::Coverage::percent_unknown() const {
  return 100.0 * static_cast<double>(unknown) / static_cast<double>(words);
}

std::vector<std::pair<std::string, std::string>> SentenceFiles::summary() const {
  std::string pairs = fmt::format("{} to train on, {} to test with", used_, tested_);
  if (left_out_ > 0)
    pairs += fmt::format("; {} left out, of more than {} words (--max-length)", left_out_,
                         settings_.longest);
  return {{"Sentences", pairs},
          {"Vocabulary",
           fmt::format("{} and {} words, which lack {:.1f} % and {:.1f} % of the test sentences'",
                       from_.size(), to_.size(), source_coverage_.percent_unknown(),
                       target_coverage_.percent_unknown())}};
}

}  // namespace tasuki::seq2seq

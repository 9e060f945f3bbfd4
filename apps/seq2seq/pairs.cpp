#include "apps/seq2seq/pairs.hpp"

#include <algorithm>
#include <utility>

#include "apps/seq2seq/vocabulary.hpp"
#include "core/error.hpp"

namespace tasuki::seq2seq {
namespace {

enum FieldNumber : std::size_t { x_field, y_field, t_field };

Field ids(const char* name, std::int64_t classes, std::int64_t longest) {
  return {.name = name,
          .shape = {longest},
          .stored = DType::int32,
          .decoded = DType::int32,
          .classes = classes,
          .is_ragged = true};
}

class PairsDataset final : public Dataset {
 public:
  PairsDataset(NumberPairs pairs, std::int64_t source_words, std::int64_t target_words)
      : pairs_(std::move(pairs)) {
    std::int64_t longest_source = 0, longest_target = 0;
    for (std::int64_t i = 0; i < pairs_.size(); ++i) {
      longest_source = std::max(longest_source, std::ssize(pairs_.source(i)));
      longest_target = std::max(longest_target, std::ssize(pairs_.target(i)) + 1);
    }
    Field t = ids("t", target_words, longest_target);
    t.is_target = true;
    t.ignored_label = -1;
    t.padding = -1;
    header_ = {pairs_.size(),
               {ids("x", source_words, longest_source), ids("y", target_words, longest_target),
                std::move(t)}};
    header_.check();
  }

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override { return pairs_.bytes(); }

  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    TASUKI_CHECK(0 <= i && i < header_.count, "example {} of a data set of {}", i, header_.count);
    if (field == x_field) {
      const auto source = pairs_.source(i);
      into.resize(std::ssize(source));
      std::ranges::reverse_copy(source, into.as<std::int32_t>().begin());
      return;
    }
    const auto target = pairs_.target(i);
    into.resize(std::ssize(target) + 1);
    const auto to = into.as<std::int32_t>();
    (field == y_field ? to.front() : to.back()) = Vocabulary::eos;
    std::ranges::copy(target, to.begin() + (field == y_field ? 1 : 0));
  }

 private:
  NumberPairs pairs_;
  DatasetHeader header_;
};

}  // namespace

void NumberPairs::reserve(std::int64_t pairs, std::int64_t words) {
  ends_.reserve(2 * static_cast<std::size_t>(pairs));
  numbers_.reserve(static_cast<std::size_t>(words));
}

void NumberPairs::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  for (const auto sentence : {source, target}) {
    numbers_.insert(numbers_.end(), sentence.begin(), sentence.end());
    ends_.push_back(numbers_.size());
  }
}

std::size_t NumberPairs::bytes() const {
  return std::span(numbers_).size_bytes() + std::span(ends_).size_bytes();
}

std::span<const std::int32_t> NumberPairs::sentence(std::int64_t number) const {
  const auto at = static_cast<std::size_t>(number);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::span(numbers_).subspan(begin, ends_[at] - begin);
}

std::shared_ptr<const Dataset> make_pairs_dataset(NumberPairs pairs, std::int64_t source_words,
                                                  std::int64_t target_words) {
  return std::make_shared<PairsDataset>(std::move(pairs), source_words, target_words);
}

}  // namespace tasuki::seq2seq

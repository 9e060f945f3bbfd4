// Sentences to translate, and the vocabularies of a model of train_seq2seq.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/seq2seq/vocabulary.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

using Sentence = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;

// Words of text files, or letters of dates.
struct Language {
  bool is_dates = false;
  seq2seq::Vocabulary source, target;

  std::string text(const Sentence& words) const;
  std::string text(const Ids& words) const;  // in the target language
};
// The vocabularies of the training program: of dates, or of its files, which are read again. Files
// that have changed since are an error of kind data.
Language language_of(const TrainedModel& trained);

// In order; either all have translations or none.
struct Sentences {
  std::vector<Sentence> source, target;
};
// One sentence per line of `files`, and its translation on the same line of `target`, plain or
// gzip-compressed; lines without words are left out. Different numbers of lines are an error of
// kind data.
Sentences read_sentences(const std::vector<std::string>& files,
                         const std::optional<std::string>& target, bool is_dates);
// The run's evaluation data: its test files, or the sentences that it held out.
Sentences test_sentences(const FinishedRun& run);

}  // namespace tasuki::predict

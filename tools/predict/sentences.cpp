#include "tools/predict/sentences.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "apps/seq2seq/dates.hpp"
#include "apps/seq2seq/sentence_files.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/text_parts.hpp"
#include "dataset/files/text_file.hpp"

namespace tasuki::predict {
namespace {

Sentence letters_of(std::string_view text) {
  Sentence letters;
  for (const char letter : text) letters.emplace_back(1, letter);
  return letters;
}

// The lines with words, by line number, and the number of all lines.
struct Lines {
  std::map<std::int64_t, Sentence> sentences;
  std::int64_t count = 0;
};

Lines read_lines(const std::string& path, bool is_dates) {
  Lines lines;
  TextFile file(path);
  for (std::string_view line; file.next(line);)
    lines.sentences[file.number()] = is_dates ? letters_of(line) : text_words(line);
  lines.count = file.number();
  return lines;
}

bool is_given(const FinishedRun& run, const std::string& flag) {
  return run.flag(flag).value_or("none") != "none";
}

// The training's files, read in the same way.
seq2seq::SentenceFiles files_of(const FinishedRun& run) {
  seq2seq::SentenceFileSettings settings{.source = run.flag("source").value_or(""),
                                         .target = run.flag("target").value_or(""),
                                         .test_source = {},
                                         .test_target = {},
                                         .words = run.number("words", 0),
                                         .longest = run.number("max-length", 0),
                                         .examples = {},
                                         .test_examples = {}};
  if (is_given(run, "test-source")) {
    settings.test_source = run.flag("test-source");
    settings.test_target = run.flag("test-target").value_or("");
  }
  return read_as_told([&] { return seq2seq::SentenceFiles(settings); });
}

Language language_of_files(const FinishedRun& run) {
  const seq2seq::SentenceFiles files = files_of(run);
  return {false, files.from(), files.to()};
}

void check_vocabulary(const seq2seq::Vocabulary& vocabulary, const std::string& flag,
                      const char* array, const TrainedModel& trained, const std::string& place) {
  // load_weights() reports a file without the array.
  if (const auto found = trained.shapes.find(array);
      found != trained.shapes.end() && found->second[0] != vocabulary.size())
    fail(ErrorKind::data,
         "{}: expected a vocabulary of {} words, which the model has, found one of {}; it has "
         "changed since the training",
         place, found->second[0], vocabulary.size());
  const auto& hashes = trained.run.vocabularies;
  if (const auto hash = hashes.find(flag);
      hash != hashes.end() && hash->second != fmt::format("{:016x}", vocabulary.hash()))
    fail(ErrorKind::data,
         "{}: expected the vocabulary that the model was trained with, found other words; it has "
         "changed since the training",
         place);
}

}  // namespace

std::string Language::text(const Sentence& words) const {
  return join(words, is_dates ? "" : " ");
}

std::string Language::text(const Ids& words) const {
  Sentence sentence;
  for (const std::int32_t word : words) sentence.push_back(target.word(word));
  return text(sentence);
}

Language language_of(const TrainedModel& trained) {
  const FinishedRun& run = trained.run;
  if (!run.flag("source"))
    fail(ErrorKind::usage,
         "{}: no about.json beside it says which vocabularies the model has; give the output "
         "folder of its run",
         trained.file.string());
  const bool is_dates = !is_given(run, "source");
  Language language = is_dates ? Language{true, seq2seq::date_letters(), seq2seq::iso_letters()}
                               : language_of_files(run);
  check_vocabulary(language.source, "source", "embed_x/W", trained,
                   is_dates ? "dates" : *run.flag("source"));
  check_vocabulary(language.target, "target", "embed_y/W", trained,
                   is_dates ? "dates" : run.flag("target").value_or(""));
  return language;
}

Sentences read_sentences(const std::vector<std::string>& files,
                         const std::optional<std::string>& target, bool is_dates) {
  Sentences sentences;
  if (!target) {
    for (const std::string& file : files)
      for (auto& [number, words] : read_lines(file, is_dates).sentences)
        sentences.source.push_back(std::move(words));
    return sentences;
  }
  if (files.size() > 1)
    fail(ErrorKind::usage, "--target has the translations of one file, but {} were given",
         files.size());
  Lines from = read_lines(files.at(0), is_dates), to = read_lines(*target, is_dates);
  if (from.count != to.count)
    fail(ErrorKind::data, "{}: expected {} lines, as many as in {}, found {}", *target, from.count,
         files[0], to.count);
  for (auto& [number, words] : from.sentences) {
    const auto translated = to.sentences.find(number);
    if (translated == to.sentences.end()) continue;
    sentences.source.push_back(std::move(words));
    sentences.target.push_back(std::move(translated->second));
  }
  return sentences;
}

Sentences test_sentences(const FinishedRun& run) {
  if (is_given(run, "source")) {
    const seq2seq::SentenceFiles files = files_of(run);
    auto [source, target] = read_as_told([&] { return files.test_text(); });
    const std::int64_t all = std::ssize(source);
    const std::int64_t tested = std::min(run.number("test-examples", all), all);
    source.resize(static_cast<std::size_t>(tested));
    target.resize(static_cast<std::size_t>(tested));
    return {std::move(source), std::move(target)};
  }
  Sentences dates;
  const auto seed = static_cast<std::uint64_t>(run.number("seed", 0));
  for (std::int64_t i = 0; i < run.number("test-examples", 1000); ++i) {
    const auto [written, iso] = seq2seq::date_example(seed, i, true);
    dates.source.push_back(letters_of(written));
    dates.target.push_back(letters_of(iso));
  }
  return dates;
}

}  // namespace tasuki::predict

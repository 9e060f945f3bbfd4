// Trains an encoder and a decoder on pairs of sentences, data-parallel over MPI: ChainerMN's
// seq2seq. Without files it learns dates written in many ways.
//
//   build/apps/tasuki-run -np 2 build/apps/train_seq2seq
//   build/apps/tasuki-run -np 4 build/apps/train_seq2seq --source train.en --target train.fr --bleu
//   build/apps/tasuki-run -np 2 build/apps/train_seq2seq --model-parallel

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "apps/seq2seq/dates.hpp"
#include "apps/seq2seq/evaluation.hpp"
#include "apps/seq2seq/sentence_files.hpp"
#include "apps/seq2seq/translator.hpp"
#include "program/training_program.hpp"

namespace {

using namespace tasuki;
using namespace tasuki::seq2seq;

struct Flags {
  std::int64_t unit = 1024, layer = 3;
  double dropout = 0.1;
  bool bleu = false;
  std::string stop;
  std::optional<std::string> input, source, target, test_source, test_target;
  std::int64_t words = 40000, longest = 49, buckets = 50;
};

// The end of a run in the form of ChainerMN's example: "15e" or "500i".
program::Recipe end_of(const std::string& stop) {
  if (stop.empty()) return {};
  const std::string number = stop.substr(0, stop.size() - 1);
  if (stop.back() == 'e') return {{"epoch", number}};
  return {{"epoch", "1000000"}, {"max-iterations", number}};
}

program::Option stop_option(std::string& stop) {
  program::Option option;
  option.value_name = "15e|500i";
  option.help = "ChainerMN's form of --epoch 15 or --max-iterations 500";
  option.set = [&stop](const std::string& text) {
    const std::size_t digits = text.find_first_not_of("0123456789");
    const bool is_end = digits != 0 && digits != std::string::npos && digits < 8 &&
                        digits + 1 == text.size() && (text.back() == 'e' || text.back() == 'i') &&
                        text[0] != '0';
    if (text != "none" && !is_end)
      throw std::invalid_argument("a number of epochs such as 15e or of iterations such as 500i");
    stop = is_end ? text : "";
  };
  option.get = [&stop] { return stop.empty() ? "none" : stop; };
  return option;
}

// Divides each model among the ranks of a pair.
program::Option model_parallel_option(program::TrainingSettings& settings) {
  program::Option option;
  option.help =
      "ChainerMN's seq2seq_mp1: in each pair of ranks, the encoder on one and the decoder on the "
      "other";
  option.implicit = "true";
  option.choices = {"true", "false"};
  option.set = [&settings](const std::string& text) {
    settings.model_ranks = program::parse_switch(text) ? 2 : 1;
  };
  option.get = [&settings] { return settings.model_ranks == 2 ? "true" : "false"; };
  return option;
}

// --input names ChainerMN's folder, with these files.
void find_input(Flags& flags) {
  if (!flags.input) return;
  const std::filesystem::path folder = *flags.input;
  const auto file = [&](std::optional<std::string>& flag, const char* name) {
    if (!flag) flag = folder / name;
  };
  file(flags.source, "giga-fren.release2.fixed.en");
  file(flags.target, "giga-fren.release2.fixed.fr");
  file(flags.test_source, "dev/newstest2013.en");
  file(flags.test_target, "dev/newstest2013.fr");
}

void check(const Flags& flags) {
  if (flags.source.has_value() != flags.target.has_value())
    fail_everywhere(ErrorKind::usage,
                    "--source and --target belong together: expected both or "
                    "none, found one");
  if (flags.test_source.has_value() != flags.test_target.has_value())
    fail_everywhere(ErrorKind::usage,
                    "--test-source and --test-target belong together: expected "
                    "both or none, found one");
  if (flags.test_source && !flags.source)
    fail_everywhere(ErrorKind::usage,
                    "--test-source: expected --source and --target with it, found neither");
}

void add_flags(TrainingProgram& program, Flags& flags) {
  program.flags.add("unit,u", flags.unit, {1, 1 << 16}, "N",
                    "units of each layer and embedding: 1024 for files, 256 for dates");
  program.flags
      .add("layer", flags.layer, {1, 64}, "N",
           "layers of the encoder and of the decoder: 3 for files, 1 for dates")
      .in_short("layers of encoder and decoder");
  program.flags.add("dropout", flags.dropout, {0, 0.99}, "RATIO", "between layers")
      .in_short("dropout between layers");
  program.flags.add("bleu", flags.bleu, "report BLEU of the translated test sentences");
  program.flags.add("stop,s", stop_option(flags.stop)).in_short("when to end, as in ChainerMN");
  program.flags.add("model-parallel", model_parallel_option(program.settings))
      .in_short("encoder and decoder on two ranks");
  program.flags
      .add("source", flags.source, "none", "FILE",
           "sentences to translate, one per line, words separated by white space; without files: "
           "dates (--help with this flag shows the defaults for files)")
      .in_short("training sentences, one per line");
  program.flags.add("target", flags.target, "none", "FILE", "their translations");
  program.flags.add(
      "test-source", flags.test_source, "none", "FILE",
      "sentences to test with; default: the last twentieth of --source, at most 1000");
  program.flags.add("test-target", flags.test_target, "none", "FILE", "their translations");
  program.flags.add("input,i", flags.input, "none", "FOLDER",
                    "folder with ChainerMN's files (giga-fren.release2.fixed.en, ...), instead "
                    "of --source etc.");
  program.flags
      .add("words", flags.words, {3, 1 << 24}, "N",
           "size of each vocabulary: the most frequent words, <eos> and <unk> included")
      .in_short("size of each vocabulary");
  program.flags
      .add("max-length", flags.longest, {0, 1 << 20}, "N",
           "leave out training pairs with more words in a sentence; 0: keep all")
      .in_short("longest training sentence, in words");
  program.flags
      .add("bucket-steps", flags.buckets, {0, 1 << 20}, "N",
           "steps whose examples are sorted by length, for less padding; 0: none")
      .in_short("steps to sort by length at a time");
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_seq2seq",
      "trains an LSTM encoder and decoder to translate sentences, or dates "
      "written in many ways, over MPI",
      "tasuki-run -np 2 train_seq2seq --source train.en --target train.fr --bleu");
  Flags flags;
  program.settings.batchsize = 64;
  program.settings.epoch = 15;
  add_flags(program, flags);

  program.recipe = [&] {
    find_input(flags);
    program::Recipe recipe = end_of(flags.stop);
    if (flags.source) return recipe;
    recipe.insert(recipe.begin(),
                  {{"unit", "256"}, {"layer", "1"}, {"epoch", "6"}, {"lr", "0.002"}});
    // The schedule follows the number of epochs, which iterations do not give.
    if (!flags.stop.ends_with('i')) recipe.emplace_back("lr-schedule", "cosine");
    return recipe;
  };
  program.check_flags = [&] {
    check(flags);
    if (flags.buckets > 0) program.length_buckets = LengthBuckets{"x", flags.buckets};
  };

  const auto& settings = program.settings;
  std::unique_ptr<SentenceFiles> files;  // on rank 0
  const auto read_files = [&]() -> SentenceFiles& {
    if (files == nullptr)
      files = std::make_unique<SentenceFiles>(
          SentenceFileSettings{.source = *flags.source,
                               .target = *flags.target,
                               .test_source = flags.test_source,
                               .test_target = flags.test_target,
                               .words = flags.words,
                               .longest = flags.longest,
                               .examples = settings.examples,
                               .test_examples = settings.test_examples});
    return *files;
  };
  const auto seed = [&] { return static_cast<std::uint64_t>(settings.seed); };
  program.train_data = [&] {
    return flags.source ? read_files().train()
                        : make_dates_dataset(seed(), settings.examples.value_or(50000), false);
  };
  program.test_data = [&] {
    return flags.source ? read_files().test()
                        : make_dates_dataset(seed(), settings.test_examples.value_or(1000), true);
  };

  program.vocabularies = [&]() -> std::vector<program::DataVocabulary> {
    if (!flags.source)
      return {{"source", "dates", date_letters().hash()},
              {"target", "dates", iso_letters().hash()}};
    return {{"source", *flags.source, files->from().hash()},
            {"target", *flags.target, files->to().hash()}};
  };

  const auto sizes = [&](const DatasetHeader& data) {
    return Seq2seqSizes{.layers = flags.layer,
                        .source_words = data.field("x").classes,
                        .target_words = data.field("y").classes,
                        .units = flags.unit,
                        .dropout = static_cast<float>(flags.dropout)};
  };
  std::function<Quality(const Batch&)> evaluate;
  const auto training_of = [&](Translator made) {
    if (!evaluate) evaluate = std::move(made.evaluate);  // further devices' models are replicas
    return std::move(made.training);
  };
  program.create_model = [&](const DatasetHeader& data) {
    return training_of(create_translator(sizes(data)));
  };
  program.create_part = [&](const DatasetHeader& data, Communicator& model) {
    return training_of(create_part_of_translator(sizes(data), model));
  };
  program.create_evaluator = [&](std::unique_ptr<Iterator> batches, const LossFunction&) {
    if (flags.bleu && program.settings.shard == Sharding::weights)
      fail_everywhere(
          ErrorKind::usage,
          "--bleu and --shard weights: a translation has as many passes as words, which "
          "ranks would have to make together; leave one out");
    return create_translation_evaluator(std::move(batches), evaluate, flags.bleu);
  };
  program.columns = {"epoch",
                     "main/loss",
                     "validation/main/loss",
                     "main/accuracy",
                     "validation/main/exact",
                     "validation/main/bleu",
                     "elapsed_time"};
  program.banner = [&] {
    program::BannerLines lines = {{"Num unit", std::to_string(flags.unit)},
                                  {"Num layer", std::to_string(flags.layer)}};
    if (files != nullptr) std::ranges::move(files->summary(), std::back_inserter(lines));
    return lines;
  };
  return program.run(argc, argv);
}

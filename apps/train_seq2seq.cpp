// Trains an encoder and a decoder on pairs of sentences, data-parallel over MPI: ChainerMN's
// seq2seq. Without files, on dates written in many ways.
//
//   mpirun -np 2 build/apps/train_seq2seq
//   mpirun -np 4 build/apps/train_seq2seq --source train.en --target train.fr --bleu

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "seq2seq/dates.hpp"
#include "seq2seq/evaluation.hpp"
#include "seq2seq/pairs.hpp"
#include "tasuki/program/training_program.hpp"

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

// A training run's end as ChainerMN's example writes it: "15e" or "500i".
program::Recipe end_of(const std::string& stop) {
  if (stop.empty()) return {};
  const std::string number = stop.substr(0, stop.size() - 1);
  if (stop.back() == 'e') return {{"epoch", number}};
  return {{"epoch", "1000000"}, {"max-iterations", number}};
}

program::Option stop_option(std::string& stop) {
  program::Option option;
  option.value_name = "15e|500i";
  option.help = "ChainerMN's way to write --epoch 15 or --max-iterations 500";
  option.set = [&stop](const std::string& text) {
    const std::size_t digits = text.find_first_not_of("0123456789");
    const bool is_end = digits != 0 && digits != std::string::npos && digits < 8 &&
                        digits + 1 == text.size() && (text.back() == 'e' || text.back() == 'i') &&
                        text[0] != '0';
    if (!text.empty() && !is_end)
      throw std::invalid_argument("a number of epochs such as 15e or of iterations such as 500i");
    stop = text;
  };
  option.get = [&stop] { return stop; };
  return option;
}

// The files of --source and --target as numbers; on the rank that reads them.
class Files {
 public:
  explicit Files(const Flags& flags) {
    TextPairs text = read_pairs(*flags.source, *flags.target, flags.longest);
    TextPairs held_out;
    if (!flags.test_source) held_out = take_last(text);
    const Vocabulary from(text.source, flags.words), to(text.target, flags.words);
    source_words_ = from.size();
    target_words_ = to.size();
    train_ = numbers_of(text, from, to);
    // All test pairs, however long.
    if (flags.test_source) held_out = read_pairs(*flags.test_source, *flags.test_target, 0);
    test_ = numbers_of(held_out, from, to);
  }
  std::shared_ptr<const Dataset> train() const { return dataset_of(train_); }
  std::shared_ptr<const Dataset> test() const { return dataset_of(test_); }

 private:
  // The last twentieth, at least one pair and at most 1000, which `text` then lacks.
  static TextPairs take_last(TextPairs& text) {
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
  static std::vector<NumberPair> numbers_of(const TextPairs& text, const Vocabulary& from,
                                            const Vocabulary& to) {
    std::vector<NumberPair> pairs;
    for (std::size_t i = 0; i < text.source.size(); ++i)
      pairs.push_back({from.numbers(text.source[i]), to.numbers(text.target[i])});
    return pairs;
  }
  std::shared_ptr<const Dataset> dataset_of(const std::vector<NumberPair>& pairs) const {
    return make_pairs_dataset(pairs, source_words_, target_words_);
  }

  std::int64_t source_words_ = 0, target_words_ = 0;
  std::vector<NumberPair> train_, test_;
};

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

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("train_seq2seq",
                          "trains an LSTM encoder and decoder to translate sentences, or dates "
                          "written in many ways, over MPI",
                          "mpirun -np 2 train_seq2seq --source train.en --target train.fr --bleu");
  Flags flags;
  program.settings.batchsize = 64;
  program.settings.epoch = 15;
  program.flags.add("unit,u", flags.unit, {1, 1 << 16}, "N", "units of each layer and embedding");
  program.flags.add("layer", flags.layer, {1, 64}, "N", "layers of the encoder and of the decoder");
  program.flags.add("dropout", flags.dropout, {0, 0.99}, "RATIO", "between layers");
  program.flags.add("bleu", flags.bleu, "report BLEU of the translated test sentences");
  program.flags.add("stop,s", stop_option(flags.stop));
  program.flags.add(
      "source", flags.source, "none", "FILE",
      "sentences to translate, one a line, words by white space; without files: dates");
  program.flags.add("target", flags.target, "none", "FILE", "their translations");
  program.flags.add(
      "test-source", flags.test_source, "none", "FILE",
      "sentences to test with; default: the last twentieth of --source, at most 1000");
  program.flags.add("test-target", flags.test_target, "none", "FILE", "their translations");
  program.flags.add("input,i", flags.input, "none", "FOLDER",
                    "folder with ChainerMN's files (giga-fren.release2.fixed.en, ...), in place of "
                    "--source and the like");
  program.flags.add(
      "words", flags.words, {3, 1 << 24}, "N",
      "most frequent words of each side that have a number, <eos> and <unk> included");
  program.flags.add("max-length", flags.longest, {0, 1 << 20}, "N",
                    "leave out training pairs with more words on a side; 0: none");
  program.flags.add("bucket-steps", flags.buckets, {0, 1 << 20}, "N",
                    "steps whose examples are sorted by length, for less padding; 0: none");

  program.recipe = [&] {
    find_input(flags);
    program::Recipe recipe = end_of(flags.stop);
    if (flags.source) return recipe;
    recipe.insert(recipe.begin(),
                  {{"unit", "256"}, {"layer", "1"}, {"epoch", "6"}, {"lr", "0.002"}});
    // The schedule follows the number of epochs, which iterations do not tell.
    if (!flags.stop.ends_with('i')) recipe.emplace_back("lr-schedule", "cosine");
    return recipe;
  };
  program.check = [&](const Communicator&) {
    check(flags);
    if (flags.buckets > 0) program.length_buckets = LengthBuckets{"x", flags.buckets};
  };

  std::unique_ptr<const Files> files;
  const auto read_files = [&]() -> const Files& {
    if (files == nullptr) files = std::make_unique<Files>(flags);
    return *files;
  };
  const auto& settings = program.settings;
  const auto seed = [&] { return static_cast<std::uint64_t>(settings.seed); };
  program.train_data = [&] {
    return flags.source ? read_files().train()
                        : make_dates_dataset(seed(), settings.examples.value_or(50000), false);
  };
  program.test_data = [&] {
    return flags.source ? read_files().test()
                        : make_dates_dataset(seed(), settings.test_examples.value_or(1000), true);
  };

  Seq2seq* model = nullptr;
  program.create_model = [&](const DatasetHeader& data) {
    auto made =
        std::make_unique<Seq2seq>(flags.layer, data.field("x").classes, data.field("y").classes,
                                  flags.unit, static_cast<float>(flags.dropout));
    if (model == nullptr) model = made.get();  // further devices' models are replicas
    LossFunction loss = translation_loss(*made);
    return TrainingModel{std::move(made), std::move(loss)};
  };
  program.create_evaluator = [&](std::unique_ptr<Iterator> batches, LossFunction loss) {
    return create_translation_evaluator(std::move(batches), *model, std::move(loss), flags.bleu);
  };
  program.columns = {"epoch",
                     "main/loss",
                     "validation/main/loss",
                     "main/accuracy",
                     "validation/main/exact",
                     "validation/main/bleu",
                     "elapsed_time"};
  program.banner = [&] {
    return program::BannerLines{{"Num unit", std::to_string(flags.unit)},
                                {"Num layer", std::to_string(flags.layer)}};
  };
  return program.run(argc, argv);
}

// Translation of sentences, or of dates written in many ways, with the models of train_seq2seq.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/seq2seq/pairs.hpp"
#include "communicator/run_on_root.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "models/seq2seq.hpp"
#include "saving/onnx/export_onnx.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/sentences.hpp"
#include "tools/predict/task.hpp"
#include "tools/predict/text_table.hpp"
#include "training/bleu.hpp"

namespace tasuki::predict {
namespace {

using nlohmann::ordered_json;
using seq2seq::NumberPairs;

const char* const seq2seq_network = "seq2seq";

std::unique_ptr<Seq2seq> create_seq2seq(const TrainedModel& trained) {
  const auto size = [&](const char* name, int axis, std::int64_t other) {
    const auto found = trained.shapes.find(name);
    return found == trained.shapes.end() || axis >= found->second.rank() ? other
                                                                         : found->second[axis];
  };
  std::int64_t layers = 0;
  while (trained.shapes.contains(fmt::format("encoder/{}/w0", layers))) ++layers;
  return std::make_unique<Seq2seq>(Seq2seqSizes{.layers = std::max<std::int64_t>(layers, 1),
                                                .source_words = size("embed_x/W", 0, 3),
                                                .target_words = size("embed_y/W", 0, 3),
                                                .units = size("embed_x/W", 1, 1)});
}

// Each translation, preceded by its length.
std::vector<std::int32_t> translate(Seq2seq& model, Iterator& batches, std::int64_t longest) {
  const PhaseScope evaluating(Phase::evaluating);
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  const Device device = model.device();
  std::vector<std::int32_t> found;
  for (std::int64_t step = batches.steps_per_epoch(); step > 0; --step) {
    report_progress();
    const Batch batch = batches.next();
    if (batch.size() == 0) continue;
    const auto states =
        model.encoder().encode(batch["x"].to(device), batch.lengths("x").to(device));
    for (const Ids& words : model.decoder().translate(states, longest)) {
      found.push_back(static_cast<std::int32_t>(words.size()));
      found.insert(found.end(), words.begin(), words.end());
    }
  }
  return found;
}

// All ranks' translations at the root, in order.
std::vector<Ids> gather_translations(const std::vector<std::int32_t>& own,
                                     Communicator& communicator) {
  std::vector<Ids> all;
  for (const Tensor& part :
       communicator.gather(Tensor::from(std::span(own), Shape{std::ssize(own)}))) {
    std::span<const std::int32_t> rest = part.span<std::int32_t>();
    while (!rest.empty()) {
      const auto length = static_cast<std::size_t>(rest[0]);
      all.emplace_back(rest.begin() + 1, rest.begin() + 1 + rest[0]);
      rest = rest.subspan(1 + length);
    }
  }
  return all;
}

Report report_of(const Sentences& sentences, const std::vector<Ids>& translations,
                 const Language& language) {
  const bool has_target = !sentences.target.empty();
  std::vector<std::string> header = {"source", "translation"};
  if (has_target) header.emplace_back("target");
  constexpr std::size_t widest_padding = 48;
  TextTable table(header, widest_padding);
  std::string json, csv = fmt::format("{}\n", join(header, ","));
  std::int64_t exact = 0;
  BleuCounts bleu;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    std::vector<std::string> cells = {language.text(sentences.source[i]),
                                      language.text(translations[i])};
    ordered_json row = {{"example", i}, {"source", cells[0]}, {"translation", cells[1]}};
    if (has_target) {
      cells.push_back(language.text(sentences.target[i]));
      const Ids target = seq2seq::answer_of(language.target.numbers(sentences.target[i]));
      bleu.add(translations[i], target);
      exact += translations[i] == target;
      row["target"] = cells[2];
      row["exact"] = translations[i] == target;
    }
    json += json_line(row);
    for (std::size_t k = 0; k < cells.size(); ++k) csv += (k == 0 ? "" : ",") + csv_cell(cells[k]);
    csv += '\n';
    table.add(std::move(cells));
  }
  const std::size_t count = translations.size();
  ordered_json summary = {{"examples", count}};
  std::string text = fmt::format("Sentences: {}\n", count);
  if (has_target) {
    summary["exact"] = static_cast<double>(exact) / static_cast<double>(count);
    summary["bleu"] = bleu.value();
    text +=
        fmt::format("Exact: {:.4f}\nBLEU: {:.4f}\n", summary["exact"].get<double>(), bleu.value());
  }
  return {.table = table.text(),
          .csv = csv,
          .json = json,
          .summary = text,
          .json_summary = json_line({{"summary", summary}})};
}

class Translation final : public Task {
 public:
  std::vector<std::string> networks() const override { return {seq2seq_network}; }
  std::optional<std::string> network_of(const FinishedRun& run) const override {
    if (run.program == "train_seq2seq") return seq2seq_network;
    return std::nullopt;
  }

  void add_network_flags(program::Options&) override {}

  std::unique_ptr<Module> create_network(const TaskContext& context) const override {
    return create_seq2seq(context.trained);
  }

  // MODEL_encoder.onnx makes the states with which MODEL_decoder.onnx begins, and
  // MODEL_decoder.onnx goes on by a word.
  std::vector<FileContents> encode_onnx(const TaskContext& context, Module& model,
                                        const std::filesystem::path& file) const override {
    auto& both = dynamic_cast<Seq2seq&>(model);
    const auto named = [&](const char* part) {
      std::filesystem::path path = file;
      return path.replace_filename(file.stem().string() + "_" + part + file.extension().string());
    };
    using Results = std::vector<std::pair<std::string, Variable>>;
    const auto with_states = [](Results results, const std::vector<Variable>& states) {
      for (std::size_t i = 0; i < states.size(); ++i)
        results.emplace_back("next_state_" + std::to_string(i), states[i]);
      return results;
    };
    const OnnxNotes notes = {{"network", context.network}};
    constexpr std::int64_t words = 4;
    FileContents encoder{named("encoder"), ""}, decoder{named("decoder"), ""};
    encoder.contents = tasuki::encode_onnx(
        both.encoder(),
        {{"x", Tensor::zeros({1, words}, DType::int64), {"time"}},
         {"lengths", Tensor::full({1}, words, DType::int64)}},
        [&](const std::vector<Variable>& in) {
          return with_states({}, both.encoder().encode(in[0].value(), in[1].value()));
        },
        encoder.path, notes);
    const std::vector<Variable> states = both.encoder().encode(
        Tensor::zeros({1, words}, DType::int64), Tensor::full({1}, words, DType::int64));
    std::vector<OnnxInput> inputs = {{"word", Tensor::zeros({1}, DType::int64)}};
    for (std::size_t i = 0; i < states.size(); ++i)
      inputs.push_back({"state_" + std::to_string(i), states[i].value()});
    decoder.contents = tasuki::encode_onnx(
        both.decoder(), inputs,
        [&](const std::vector<Variable>& in) {
          auto [scores, next] = both.decoder().step({in.begin() + 1, in.end()}, in[0].value());
          return with_states({{"scores", scores}}, next);
        },
        decoder.path, notes);
    return {std::move(encoder), std::move(decoder)};
  }

  void add_flags(program::Options& options) override {
    options.group("Sentences (in --data, one per line)", program::OnScreen::no);
    options
        .add("target", target_, "none", "FILE",
             "reference translations: the summary then reports exact matches and BLEU")
        .common("reference translations");
    options.add("longest", longest_, {1, 1 << 20}, "N", "longest translation, in words");
  }

  void run(const TaskContext& context) override {
    Communicator& comm = context.communicator;
    std::optional<Language> language;
    Sentences sentences;
    Share share = scatter_dataset(
        [&] {
          language = language_of(context.trained);
          sentences = read(context, language->is_dates);
          pairs_ = dataset_of(sentences, *language);
          return source_of(*pairs_);
        },
        comm);
    const auto network = create_seq2seq(context.trained);
    load_weights(context.trained, *network, comm);
    network->to(context.device);
    const auto batches = create_serial_iterator(std::move(share), context.settings.batchsize);
    const std::vector<Ids> all = gather_translations(translate(*network, *batches, longest_), comm);
    run_on_root(comm, 0, [&] {
      deliver(context.settings, report_of(sentences, all, *language));
      return Bytes{};
    });
  }

 private:
  Sentences read(const TaskContext& context, bool is_dates) const {
    const std::vector<std::string>& files = context.settings.inputs;
    if (files.empty() && target_)
      fail(ErrorKind::usage, "--target: expected --data with it, found none");
    Sentences sentences = files.empty() ? test_sentences(context.trained.run)
                                        : read_sentences(files, target_, is_dates);
    if (const auto first = context.settings.examples;
        first && *first < std::ssize(sentences.source)) {
      sentences.source.resize(static_cast<std::size_t>(*first));
      if (!sentences.target.empty()) sentences.target.resize(static_cast<std::size_t>(*first));
    }
    if (sentences.source.empty())
      fail(ErrorKind::data, "{}: expected sentences, one per line, found none", files.at(0));
    return sentences;
  }

  static std::shared_ptr<const Dataset> dataset_of(const Sentences& sentences,
                                                   const Language& language) {
    NumberPairs pairs;
    for (const Sentence& sentence : sentences.source)
      pairs.add(language.source.numbers(sentence), {});
    return seq2seq::make_pairs_dataset(std::move(pairs), language.source.size(),
                                       language.target.size());
  }

  std::optional<std::string> target_;
  std::int64_t longest_ = 100;
  std::shared_ptr<const Dataset> pairs_;  // at the root, while it is scattered
};

}  // namespace

std::unique_ptr<Task> create_translation() {
  return std::make_unique<Translation>();
}

}  // namespace tasuki::predict

// Text, with the models of train_lm: bits per byte, or a continuation.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/lm/sample.hpp"
#include "apps/lm/text.hpp"
#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "dataset/files/text_windows.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "dataset/views.hpp"
#include "nn/functions/arrays.hpp"
#include "saving/onnx/export_onnx.hpp"
#include "tools/predict/output.hpp"
#include "tools/predict/task.hpp"
#include "tools/predict/text_table.hpp"

namespace tasuki::predict {
namespace {

using nlohmann::ordered_json;

const char* const gpt_network = "gpt";
const char* const gpt2_network = "gpt2";  // tied scores, GELU by tanh

struct Flags {
  std::optional<std::string> prompt;
  std::int64_t length = 500;
  double temperature = 0.8;
  std::optional<std::int64_t> heads;
};

// Of GPT-2's published models, each head has 64 columns. 0: not one of these.
std::int64_t usual_heads(const TaskContext& context) {
  constexpr std::int64_t symbols = 50257;
  const auto found = context.trained.shapes.find("embed/W");
  if (context.network != gpt2_network || found == context.trained.shapes.end()) return 0;
  for (const std::int64_t width : {768, 1024, 1280, 1600})
    if (found->second == Shape{symbols, width}) return width / 64;
  return 0;
}

GptSettings settings_of(const TaskContext& context, const Flags& flags) {
  const std::int64_t heads =
      flags.heads.value_or(context.trained.run.number("heads", usual_heads(context)));
  if (heads == 0)
    fail_everywhere(ErrorKind::usage,
                    "the model's number of attention heads is not known; give --heads");
  try {
    GptSettings settings = lm::settings_of(context.trained.shapes, heads);
    settings.is_gpt2 = context.network == gpt2_network;
    return settings;
  } catch (const Error& error) {  // the same on all ranks
    fail_everywhere(error.kind(), "{}: {}", context.trained.file.string(), error.what());
  }
}

std::shared_ptr<const Dataset> first_of(std::shared_ptr<const Dataset> windows,
                                        std::int64_t number) {
  if (number >= windows->size()) return windows;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(number));
  for (std::int64_t i = 0; i < number; ++i) indices[static_cast<std::size_t>(i)] = i;
  return subset_of(std::move(windows), std::move(indices));
}

// The run's test data.
std::shared_ptr<const Dataset> held_out_windows(const FinishedRun& run, std::int64_t context) {
  auto place = run.flag("data");
  if (place == lm::default_text_name) place.reset();
  std::optional<std::int64_t> bytes;
  if (const std::int64_t given = run.number("bytes", -1); given >= 0) bytes = given;
  const auto text = read_as_told([&] { return lm::read_training_text(place, bytes, context); });
  const auto held_out = lm::part_of(text.windows, /*is_held_out=*/true);
  return first_of(held_out, run.number("test-examples", held_out->size()));
}

// A file's windows; the file may be shorter than the model's context.
std::shared_ptr<const Dataset> windows_of(const std::string& file, std::int64_t context) {
  std::string text = read_text(file, lm::most_text_bytes + 1);
  if (std::ssize(text) > lm::most_text_bytes)
    fail(ErrorKind::data, "{}: expected at most {} bytes of text, found more", file,
         lm::most_text_bytes);
  if (text.size() < 2)
    fail(ErrorKind::data, "{}: expected a text of at least 2 bytes, found {}", file, text.size());
  const std::int64_t length = std::min<std::int64_t>(context, std::ssize(text) - 1);
  return text_windows(std::move(text), length);
}

struct Measured {
  std::string name;
  lm::CodeLength length;
};

Report report_of(const std::vector<Measured>& texts) {
  TextTable table({"text", "bytes", "bits per byte"});
  std::string json, csv = "text,bytes,bits_per_byte\n";
  lm::CodeLength all;
  const auto per_byte = [](const lm::CodeLength& length) {
    return length.bits / static_cast<double>(length.bytes);
  };
  for (const auto& [name, length] : texts) {
    all.bits += length.bits;
    all.bytes += length.bytes;
    table.add({name, std::to_string(length.bytes), fmt::format("{:.4f}", per_byte(length))});
    json +=
        json_line({{"text", name}, {"bytes", length.bytes}, {"bits_per_byte", per_byte(length)}});
    csv += fmt::format("{},{},{}\n", csv_cell(name), length.bytes, per_byte(length));
  }
  const ordered_json summary = {{"bytes", all.bytes}, {"bits_per_byte", per_byte(all)}};
  return {.table = table.text(),
          .csv = csv,
          .json = json,
          .summary = fmt::format("Bytes: {}\nBits per byte: {:.4f}\n", all.bytes, per_byte(all)),
          .json_summary = json_line({{"summary", summary}})};
}

Report report_of(const std::string& prompt, const std::string& continuation) {
  return {.table = lm::printable(prompt + continuation) + '\n',
          .csv = "prompt,continuation\n" + csv_cell(prompt) + ',' + csv_cell(continuation) + '\n',
          .json = json_line({{"prompt", prompt}, {"continuation", continuation}}),
          .summary = fmt::format("Bytes: {}\n", continuation.size()),
          .json_summary = json_line({{"summary", {{"bytes", continuation.size()}}}})};
}

class Text final : public Task {
 public:
  std::vector<std::string> networks() const override { return {gpt_network, gpt2_network}; }
  std::optional<std::string> network_of(const FinishedRun& run) const override {
    if (run.program == "train_lm") return run.flag("arch").value_or(gpt_network);
    return std::nullopt;
  }

  void add_flags(program::Options& options) override {
    options.group("Text (in --data, or --prompt)", program::OnScreen::no);
    options.add("prompt", flags_.prompt, "none", "TEXT", "print this text and continue it")
        .common("text to continue");
    options.add("length", flags_.length, {1, 1 << 20}, "N", "bytes to generate after --prompt")
        .common();
    options.add("temperature", flags_.temperature, {0.0, 100.0}, "X",
                "randomness of the continuation: below 1 likelier bytes, 0 only the likeliest");
  }

  void add_network_flags(program::Options& options) override {
    options.add("heads", flags_.heads, "auto", {1, 1024}, "N",
                "attention heads of the model; `auto`: as in training, or GPT-2's");
  }

  std::string pytorch_names() const override { return "gpt2"; }

  std::unique_ptr<Module> create_network(const TaskContext& context) const override {
    return std::make_unique<Gpt>(settings_of(context, flags_));
  }

  std::vector<FileContents> encode_onnx(const TaskContext& context, Module& model,
                                        const std::filesystem::path& file) const override {
    auto& gpt = dynamic_cast<Gpt&>(model);
    const GptSettings& settings = gpt.settings();
    const auto scores = [&](const std::vector<Variable>& inputs) {
      const Shape& ids = inputs[0].shape();
      return std::vector{std::pair<std::string, Variable>{
          "y", functions::reshape(gpt(inputs[0]), {ids[0], ids[1], settings.symbols})}};
    };
    return {
        {file, tasuki::encode_onnx(gpt, {{"x", Tensor::zeros({1, settings.context}, DType::int64)}},
                                   scores, file, {{"network", context.network}})}};
  }

  void run(const TaskContext& context) override {
    if (flags_.prompt && !context.settings.inputs.empty())
      fail_everywhere(ErrorKind::usage,
                      "--prompt and {}: a text is either continued or measured; leave one out",
                      context.settings.inputs[0]);
    Gpt model(settings_of(context, flags_));
    if (model.settings().symbols != 256)
      fail_everywhere(ErrorKind::data,
                      "{}: expected a transformer on bytes, found one on {} symbols; it can be "
                      "exported (tasuki-export)",
                      context.trained.file.string(), model.settings().symbols);
    load_weights(context.trained, model, context.communicator);
    model.to(context.device);
    if (flags_.prompt)
      go_on(context, model);
    else
      measure(context, model);
  }

 private:
  void go_on(const TaskContext& context, Gpt& model) const {
    run_on_root(context.communicator, 0, [&] {
      const std::string& prompt = *flags_.prompt;
      const std::string text = lm::sample_text(
          model, prompt, flags_.length, flags_.temperature,
          static_cast<std::uint64_t>(
              context.settings.seed.value_or(context.trained.run.number("seed", 0))));
      deliver(context.settings, report_of(prompt, text.substr(prompt.size())));
      return Bytes{};
    });
  }

  static void measure(const TaskContext& context, Gpt& model) {
    std::vector<std::string> files = context.settings.inputs;
    const bool is_runs = files.empty();
    if (is_runs) files.emplace_back("held-out text");
    std::vector<Measured> texts;
    texts.reserve(files.size());
    for (const std::string& file : files)
      texts.push_back({file, length_of(context, model, [&] {
                         const std::int64_t length = model.settings().context;
                         return is_runs ? held_out_windows(context.trained.run, length)
                                        : windows_of(file, length);
                       })});
    run_on_root(context.communicator, 0, [&] {
      deliver(context.settings, report_of(texts));
      return Bytes{};
    });
  }

  // Each rank measures its share of the windows that `open` returns at the root. Collective.
  static lm::CodeLength length_of(const TaskContext& context, Gpt& model,
                                  const std::function<std::shared_ptr<const Dataset>()>& open) {
    Communicator& comm = context.communicator;
    std::shared_ptr<const Dataset> windows;  // at the root
    Share share = scatter_dataset(
        [&] {
          windows = open();
          if (context.settings.examples) windows = first_of(windows, *context.settings.examples);
          return source_of(*windows);
        },
        comm);
    const auto batches = create_serial_iterator(std::move(share), context.settings.batchsize);
    const lm::CodeLength own = lm::code_length(model, *batches);
    const std::array sent = {own.bits, static_cast<double>(own.bytes)};
    lm::CodeLength all;
    for (const Tensor& part : comm.gather(Tensor::from(std::span<const double>(sent), Shape{2}))) {
      all.bits += part.data<double>()[0];
      all.bytes += static_cast<std::int64_t>(part.data<double>()[1]);
    }
    return all;
  }

  Flags flags_;
};

}  // namespace

std::unique_ptr<Task> create_text() {
  return std::make_unique<Text>();
}

}  // namespace tasuki::predict

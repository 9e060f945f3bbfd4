// Trains a GPT-style transformer on the bytes of a text, data-parallel over MPI.
//
//   build/apps/tasuki-run -np 2 build/apps/train_lm --data shakespeare.txt --sample 500

#include <cmath>
#include <cstdio>
#include <optional>

#include "apps/lm/sample.hpp"
#include "apps/lm/text.hpp"
#include "communicator/run_on_root.hpp"
#include "models/gpt.hpp"
#include "nn/functions/loss.hpp"
#include "program/training_program.hpp"

namespace {

using namespace tasuki;
namespace F = tasuki::functions;

struct Flags {
  GptSettings model;
  std::optional<std::string> data;
  std::optional<std::int64_t> bytes;
  std::int64_t sample = 200;
  double temperature = 0.8;
};

// The mean over all bytes of the batch, in nats; reported in bits, too.
LossFunction loss_of(Gpt& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    const Tensor t = batch["t"].to(device);
    const Variable scores = model(Variable(batch["x"].to(device)));
    Variable loss = F::softmax_cross_entropy(scores, t.reshape({t.count()}));
    const Tensor bits = loss.value().clone();
    backend(device).scale(bits, static_cast<float>(1 / std::log(2.0)));
    report.add_mean("bits_per_byte", bits, t.shape()[0]);
    return loss;
  };
}

// Prints a sample on rank 0 at the end of training, unless training was stopped.
class Sampler final : public Extension {
 public:
  Sampler(Gpt& model, const Flags& flags, std::uint64_t seed)
      : model_(model), flags_(flags), seed_(seed) {}
  std::string default_name() const override { return "sampler"; }
  // Samples may take long, so the last snapshot is saved first.
  int priority() const override { return priority_snapshot - 1; }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  bool reads_model() const override { return true; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void run(Trainer&) override {}
  void finalize(Trainer& trainer) override {
    if (trainer.is_stopped()) return;
    const auto print = [this] {
      const std::string text =
          lm::sample_text(model_, "\n", flags_.sample, flags_.temperature, seed_);
      std::printf("sample:%s\n", lm::printable(text).c_str());
      std::fflush(stdout);
      return Bytes();
    };
    // The other ranks wait here, as long as it takes.
    if (trainer.communicator() != nullptr)
      run_on_root(*trainer.communicator(), 0, print);
    else
      print();
  }

 private:
  Gpt& model_;
  const Flags& flags_;
  std::uint64_t seed_;
};

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program(
      "train_lm", "trains a GPT-style transformer to predict the bytes of a text, over MPI",
      "tasuki-run -np 2 train_lm --data shakespeare.txt --epoch 3 --sample 500");
  Flags flags;
  program.settings.batchsize = 16;
  program.settings.epoch = 1;
  program.settings.optimizer = "adamw";
  program.settings.lr = 1e-3;
  program.settings.weight_decay = 1e-4;  // per step, independent of the rate: 0.1 times the rate
                                         // above
  program.settings.no_decay_1d = true;
  program.settings.lr_schedule = program::LrSchedule::cosine;
  program.settings.warmup = 0.05;
  program.settings.clip_norm = 1;
  program.flags.add("layers", flags.model.layers, {1, 1024}, "N", "blocks of the transformer");
  program.flags.add("heads", flags.model.heads, {1, 1024}, "N",
                    "attention heads of each block; they divide the width");
  program.flags.add("width", flags.model.width, {1, 1 << 16}, "N", "numbers for each byte");
  program.flags.add("context", flags.model.context, {1, 1 << 16}, "N",
                    "bytes that the model sees; an example is a window of as many");
  program.flags.add("data", flags.data, lm::default_text_name, "PATH",
                    "text to train on: a file, plain or gzip-compressed, or all files in a folder; "
                    "every tenth part is held out for validation");
  program.flags.add(
      "bytes", flags.bytes, "auto", {0, lm::most_text_bytes}, "N",
      fmt::format("use the first N bytes of the text; 0: all; `auto`: all of --data, {} of the "
                  "dictionary. {} at most",
                  lm::default_text_bytes, lm::most_text_bytes));
  program.flags
      .add("sample", flags.sample, {0, 1 << 20}, "N",
           "at the end, print a text of N bytes that the trained model makes up (not with "
           "--quiet); 0: none")
      .in_short("bytes of text to write at the end");
  program.flags
      .add("temperature", flags.temperature, {0, 100}, "X",
           "of the sample: below 1 likelier bytes, 0 the likeliest ones only")
      .in_short("randomness of the sample");

  program.check_flags = [&] {
    if (flags.model.width % flags.model.heads != 0)
      fail_everywhere(ErrorKind::usage, "--heads {}: expected a number that divides --width {}",
                      flags.model.heads, flags.model.width);
  };
  lm::TrainingText text;  // on rank 0
  const auto part = [&](bool is_held_out) {
    if (text.windows == nullptr)
      text = lm::read_training_text(flags.data, flags.bytes, flags.model.context);
    return lm::part_of(text.windows, is_held_out);
  };
  program.train_data = [&] { return part(false); };
  program.test_data = [&] { return part(true); };

  Gpt* model = nullptr;
  program.create_model = [&](const DatasetHeader&) {
    auto made = std::make_unique<Gpt>(flags.model);
    model = made.get();
    LossFunction loss = loss_of(*made);
    return TrainingModel{std::move(made), std::move(loss)};
  };
  program.extend = [&](Trainer& trainer) {
    if (flags.sample > 0 && !program.settings.quiet)
      trainer.extend(std::make_unique<Sampler>(*model, flags,
                                               static_cast<std::uint64_t>(program.settings.seed)));
  };
  program.columns = {"epoch", "main/bits_per_byte", "validation/main/bits_per_byte",
                     "elapsed_time"};
  program.banner = [&] {
    return program::BannerLines{
        {"Text", text.origin},
        {"Transformer", fmt::format("{} layers, {} heads, width {}, context {}", flags.model.layers,
                                    flags.model.heads, flags.model.width, flags.model.context)}};
  };
  return program.run(argc, argv);
}

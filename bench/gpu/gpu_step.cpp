// Training steps (forward, backward, update) on a GPU with a batch that is already in its memory.
//
//   gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [--graph] [--seconds N] [--steps N] [--verbose]
//
// MODEL is one of
//   mlp         784-1000-1000-10, Adam
//   gpt         train_lm's transformer: 4 layers, 4 heads, width 256, texts of 128 bytes; AdamW
//   gpt2_small  GPT-2's smallest: 12 layers, 12 heads, width 768, texts of 1024 of 50304 symbols;
//               AdamW
//   lstm        2 layers of 512 units, 32 steps; its mean squared error, Adam
//   dcgan       both networks' losses on images of 3 x 32 x 32; Adam for each
// or a name of --arch (momentum SGD). With --graph a step is recorded once and replayed, as
// training programs do it. Prints one line of JSON: examples per second over at least N (3)
// seconds, after steps that choose algorithms, and the peak of memory in use. With --steps it
// measures so many, after one, for profilers. --verbose says on standard error which algorithms
// were chosen.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "models/catalog.hpp"
#include "models/dcgan.hpp"
#include "models/gpt.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "nn/functions/loss.hpp"
#include "nn/initializer.hpp"
#include "nn/n_step_rnn.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tensor/cuda_settings.hpp"
#include "training/recording/step_runner.hpp"

using namespace tasuki;

namespace {

// A workload: a network that learns from one loss, or several that learn from one each.
struct Task {
  std::unique_ptr<Module> model;
  std::vector<Module*> parts;  // that have an optimizer each
  const char* optimizer;
  std::function<std::vector<Variable>()> losses;  // one of each part
};

// Where a workload is computed, and in which type.
struct Place {
  Device device;
  DType type;

  Variable noise(const Shape& shape) const {
    const Tensor made = Tensor::empty(shape);
    initializers::uniform(1)(made, 1, 2);
    return Variable(made.to(type).to(device));
  }
  // 0, 1, ..., below `limit`, again and again.
  Tensor symbols(const Shape& shape, std::int64_t limit) const {
    const Tensor made = Tensor::empty(shape, DType::int32);
    for (std::int64_t i = 0; i < made.count(); ++i)
      made.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % limit);
    return made.to(device);
  }
};

Task classifier_of(std::unique_ptr<Layer> network, const Shape& x, const char* optimizer,
                   const Place& place) {
  auto made = std::make_unique<Classifier>(std::move(network));
  Classifier& model = *made;
  return {std::move(made),
          {&model},
          optimizer,
          [&model, images = place.noise(x), t = place.symbols({x[0]}, 10)] {
            return std::vector<Variable>{model(images, t).loss};
          }};
}

Task text_task(const GptSettings& settings, std::int64_t batch, const Place& place) {
  auto made = std::make_unique<Gpt>(settings);
  Gpt& model = *made;
  return {std::move(made),
          {&model},
          "adamw",
          [&model, x = Variable(place.symbols({batch, settings.context}, settings.symbols)),
           t = place.symbols({batch * settings.context}, settings.symbols)] {
            return std::vector<Variable>{functions::softmax_cross_entropy(model(x), t)};
          }};
}

Task lstm_task(std::int64_t batch, const Place& place) {
  constexpr std::int64_t steps = 32, units = 512;
  auto made = std::make_unique<NStepLSTM>(2, units, units);
  NStepLSTM& model = *made;
  const Tensor lengths = Tensor::empty({batch}, DType::int64);
  for (std::int64_t i = 0; i < batch; ++i) lengths.data<std::int64_t>()[i] = steps;
  return {std::move(made),
          {&model},
          "adam",
          [&model, x = place.noise({batch, steps, units}),
           t = place.noise({batch, steps, units}).value(), lengths = lengths.to(place.device)] {
            return std::vector<Variable>{functions::mean_squared_error(model(x, lengths).y, t)};
          }};
}

Task dcgan_task(std::int64_t batch, const Place& place) {
  const DcganSettings settings;
  auto made = std::make_unique<Dcgan>(settings);
  Dcgan& model = *made;
  return {std::move(made),
          {&model.gen, &model.dis},
          "adam",
          [&model, settings, images = place.noise({batch, 3, 32, 32}).value()] {
            const DcganLosses losses = dcgan_losses(model, settings, images);
            return std::vector<Variable>{losses.gen, losses.dis};
          }};
}

Task task_of(const std::string& model, std::int64_t batch, const Place& place) {
  if (model == "mlp") return classifier_of(std::make_unique<MLP>(), {batch, 784}, "adam", place);
  if (model == "gpt") return text_task({}, batch, place);
  if (model == "gpt2_small")
    return text_task({.symbols = 50304, .layers = 12, .heads = 12, .width = 768, .context = 1024},
                     batch, place);
  if (model == "lstm") return lstm_task(batch, place);
  if (model == "dcgan") return dcgan_task(batch, place);
  const Shape image = model == "lenet" ? Shape{1, 28, 28} : Shape{3, 32, 32};
  return classifier_of(create_model(model, {.classes = 10, .image = image}),
                       {batch, image[0], image[1], image[2]}, "momentum_sgd", place);
}

DType type_of(const std::string& precision) {
  if (precision == "bf16") return DType::bfloat16;
  if (precision == "fp16") return DType::float16;
  if (precision != "fp32" && precision != "tf32")
    fail(ErrorKind::usage, "unknown precision '{}'; expected fp32, tf32, bf16 or fp16", precision);
  return DType::float32;
}

std::int64_t parameters_of(const Module& model) {
  std::int64_t count = 0;
  for (const Module::NamedParameter& each : model.parameters())
    count += each.parameter->value().count();
  return count;
}

// Seconds that `steps` steps take, including the device's work.
template <class Step>
double seconds_of(const Step& step, std::int64_t steps, Device device) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) step();
  backend(device).synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Flags {
  std::string precision = "fp32";
  bool graph = false;
  double seconds = 3;
  std::int64_t steps = 0;  // 0: as many as `seconds` need
};

int run(const std::string& name, std::int64_t batch, const Flags& flags) {
  load_cuda_backend();
  const Place place = {Device::cuda(0), type_of(flags.precision)};
  cuda_settings().allow_tf32 = flags.precision == "tf32";
  cuda_settings().autotune = true;

  const Task task = task_of(name, batch, place);
  task.model->initialize(1);
  task.model->to(place.device);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  std::vector<Optimizer*> all;
  for (Module* const part : task.parts) {
    optimizers.push_back(create_optimizer(task.optimizer));
    all.push_back(optimizers.back().get());
    all.back()->setup(*part);
    all.back()->compute_in(place.type);
    if (place.type == DType::float16) all.back()->guard().scale_losses({});
  }
  // The losses of networks that learn from each other share a graph (dcgan_losses()).
  if (all.size() > 1) all.front()->keep_graphs(true);

  StepRunner runner(all, {.graph = flags.graph ? GraphMode::on : GraphMode::off});
  Batch nothing({}, std::vector<std::int64_t>(static_cast<std::size_t>(batch)));
  const auto learn = [&](const Batch&, Observation&) {
    std::vector<Variable> losses(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i]->forward(
          [&] {
            if (i == 0) losses = task.losses();
            return losses[i];
          },
          batch);
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < all.size(); ++i)
      counts.push_back(all[i]->backward_and_exchange(losses[i], batch));
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->update(counts[i]);
  };
  const auto step = [&] {
    Observation unused;
    runner.run(nothing, unused, learn, "");
  };
  seconds_of(step, flags.steps > 0 ? 1 : 10, place.device);
  std::int64_t count = flags.steps;
  if (count == 0)
    count = static_cast<std::int64_t>(flags.seconds * 10 / seconds_of(step, 10, place.device)) + 10;
  const double seconds = seconds_of(step, count, place.device);
  fmt::print(
      "{{\"model\": \"{}\", \"batch\": {}, \"precision\": \"{}\", \"graph\": {}, \"steps\": {}, "
      "\"examples_per_second\": {:.1f}, \"peak_bytes\": {}, \"parameters\": {}}}\n",
      name, batch, flags.precision, flags.graph, count,
      static_cast<double>(count * batch) / seconds, backend(place.device).memory(place.device).peak,
      parameters_of(*task.model));
  return 0;
}

Flags flags_of(const std::vector<std::string>& arguments) {
  Flags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--graph")
      flags.graph = true;
    else if (arguments[i] == "--verbose")
      configure_log(0, LogLevel::verbose);
    else if (arguments[i] == "--seconds" && i + 1 < arguments.size())
      flags.seconds = std::atof(arguments[++i].c_str());
    else if (arguments[i] == "--steps" && i + 1 < arguments.size())
      flags.steps = std::atoll(arguments[++i].c_str());
    else
      flags.precision = arguments[i];
  }
  return flags;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr,
               "usage: gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [--graph] [--seconds N] "
               "[--steps N] [--verbose]\n");
    return 64;
  }
  try {
    return run(argv[1], std::atoll(argv[2]), flags_of({argv + 3, argv + argc}));
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_step: {}\n", error.what());
    return error.exit_code();
  }
}

// Training steps (forward, backward, update) on a GPU with a batch that is already in its memory.
//
//   gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [--graph] [--seconds N]
//
// MODEL is mlp (784-1000-1000-10, Adam) or a name of --arch (momentum SGD). With --graph a step is
// recorded once and replayed, as training programs do it. Prints one line of JSON: examples per
// second over at least N (3) seconds, after steps that choose algorithms, and the peak of memory in
// use.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "models/catalog.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "nn/initializer.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tensor/cuda_settings.hpp"
#include "training/recording/step_runner.hpp"

using namespace tasuki;

namespace {

struct Task {
  std::unique_ptr<Layer> model;
  Shape images;
  const char* optimizer;
};

Task task_of(const std::string& model, std::int64_t batch) {
  if (model == "mlp") return {std::make_unique<MLP>(), {batch, 784}, "adam"};
  const Shape image = model == "lenet" ? Shape{1, 28, 28} : Shape{3, 32, 32};
  return {create_model(model, {.classes = 10, .image = image}),
          {batch, image[0], image[1], image[2]},
          "momentum_sgd"};
}

DType type_of(const std::string& precision) {
  if (precision == "bf16") return DType::bfloat16;
  if (precision == "fp16") return DType::float16;
  if (precision != "fp32" && precision != "tf32")
    fail(ErrorKind::usage, "unknown precision '{}'; expected fp32, tf32, bf16 or fp16", precision);
  return DType::float32;
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
};

int run(const std::string& name, std::int64_t batch, const Flags& flags) {
  load_cuda_backend();
  const Device device = Device::cuda(0);
  cuda_settings().allow_tf32 = flags.precision == "tf32";
  cuda_settings().autotune = true;

  const DType type = type_of(flags.precision);
  Task task = task_of(name, batch);
  Classifier model(std::move(task.model));
  model.initialize(1);
  model.to(device);
  const auto optimizer = create_optimizer(task.optimizer);
  optimizer->setup(model);
  optimizer->compute_in(type);
  if (type == DType::float16) optimizer->guard().scale_losses({});

  const Tensor images = Tensor::empty(task.images);
  initializers::uniform(1)(images, 1, 2);
  const Variable x(images.to(type).to(device));
  const Tensor labels = Tensor::empty({batch}, DType::int32);
  for (std::int64_t i = 0; i < batch; ++i)
    labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);
  const Tensor t = labels.to(device);

  StepRunner runner({optimizer.get()}, {.graph = flags.graph ? GraphMode::on : GraphMode::off});
  Batch nothing({}, std::vector<std::int64_t>(static_cast<std::size_t>(batch)));
  const auto step = [&] {
    Observation unused;
    runner.run(
        nothing, unused,
        [&](const Batch&, Observation&) {
          optimizer->update([&] { return model(x, t).loss; }, batch);
        },
        "");
  };
  seconds_of(step, 10, device);
  const double a_step = seconds_of(step, 10, device) / 10;
  const auto count = static_cast<std::int64_t>(flags.seconds / a_step) + 10;
  const double seconds = seconds_of(step, count, device);
  fmt::print(
      "{{\"model\": \"{}\", \"batch\": {}, \"precision\": \"{}\", \"graph\": {}, \"steps\": {}, "
      "\"examples_per_second\": {:.1f}, \"peak_bytes\": {}}}\n",
      name, batch, flags.precision, flags.graph, count,
      static_cast<double>(count * batch) / seconds, backend(device).memory(device).peak);
  return 0;
}

Flags flags_of(const std::vector<std::string>& arguments) {
  Flags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--graph")
      flags.graph = true;
    else if (arguments[i] == "--seconds" && i + 1 < arguments.size())
      flags.seconds = std::atof(arguments[++i].c_str());
    else
      flags.precision = arguments[i];
  }
  return flags;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr,
               "usage: gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [--graph] [--seconds N]\n");
    return 64;
  }
  try {
    return run(argv[1], std::atoll(argv[2]), flags_of({argv + 3, argv + argc}));
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_step: {}\n", error.what());
    return error.exit_code();
  }
}

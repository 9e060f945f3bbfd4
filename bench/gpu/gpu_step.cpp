// Training steps (forward, backward, update) on a GPU with a batch that lies there already.
//
//   gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [SECONDS = 3]
//
// MODEL is mlp (784-1000-1000-10, Adam) or one that --arch knows (momentum SGD). Prints one line of
// JSON: examples a second over at least SECONDS, after steps that choose algorithms.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "tasuki/models/catalog.hpp"
#include "tasuki/models/mlp.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/nn/initializer.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/cuda_loader.hpp"
#include "tasuki/tensor/cuda_settings.hpp"

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
    fail(ErrorKind::usage, "'{}' is no precision; fp32, tf32, bf16 and fp16 are", precision);
  return DType::float32;
}

// Seconds that `steps` steps take, the device's work included.
template <class Step>
double seconds_of(const Step& step, std::int64_t steps, Device device) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) step();
  backend(device).synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const std::string& name, std::int64_t batch, const std::string& precision,
        double at_least) {
  load_cuda_backend();
  const Device device = Device::cuda(0);
  cuda_settings().allow_tf32 = precision == "tf32";
  cuda_settings().autotune = true;

  Task task = task_of(name, batch);
  Classifier model(std::move(task.model));
  model.initialize(1);
  model.to(device);
  const auto optimizer = create_optimizer(task.optimizer);
  optimizer->setup(model);

  const Tensor images = Tensor::empty(task.images);
  initializers::uniform(1)(images, 1, 2);
  const Variable x(images.to(type_of(precision)).to(device));
  const Tensor labels = Tensor::empty({batch}, DType::int32);
  for (std::int64_t i = 0; i < batch; ++i)
    labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);
  const Tensor t = labels.to(device);

  const auto step = [&] { optimizer->update({[&] { return model(x, t).loss; }, batch, batch}); };
  seconds_of(step, 10, device);
  const double a_step = seconds_of(step, 10, device) / 10;
  const auto steps = static_cast<std::int64_t>(at_least / a_step) + 10;
  const double seconds = seconds_of(step, steps, device);
  fmt::print(
      "{{\"model\": \"{}\", \"batch\": {}, \"precision\": \"{}\", \"steps\": {}, "
      "\"examples_per_second\": {:.1f}}}\n",
      name, batch, precision, steps, static_cast<double>(steps * batch) / seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: gpu_step MODEL BATCH [fp32|tf32|bf16|fp16] [SECONDS]\n");
    return 64;
  }
  try {
    return run(argv[1], std::atoll(argv[2]), argc > 3 ? argv[3] : "fp32",
               argc > 4 ? std::atof(argv[4]) : 3);
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_step: {}\n", error.what());
    return error.exit_code();
  }
}

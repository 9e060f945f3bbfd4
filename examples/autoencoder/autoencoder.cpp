// An autoencoder: images without labels, with all flags. mpirun -np 2 autoencoder
#include <algorithm>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t pixels = 64, code = 8;

// One field, whose name is up to the program. Bytes become value / 255 in batches.
std::unique_ptr<Dataset> made_up_images() {
  const SyntheticDataset patterns({.count = 2000, .example_shape = {pixels}, .classes = 4});
  StoredField images(patterns, patterns.header().index_of("x"));
  const Tensor all = Tensor::empty({patterns.size(), pixels}, DType::uint8);
  auto* next = static_cast<std::byte*>(all.raw());
  for (std::int64_t i = 0; i < patterns.size(); ++i) next = std::ranges::copy(images[i], next).out;
  return std::make_unique<TensorDataset>(std::vector<TensorField>{{"image", all}});
}

TrainingModel create_autoencoder(const DatasetHeader&) {
  auto model = std::make_unique<Sequential>();
  model->append("encoder", std::make_unique<Linear>(pixels, code))
      .append(F::relu)
      .append("decoder", std::make_unique<Linear>(code, pixels));
  LossFunction loss = [model = model.get()](const Batch& batch, Observation&) {
    const Tensor& images = batch["image"];
    return F::mean_squared_error((*model)(Variable(images)), images);
  };
  return {std::move(model), std::move(loss)};
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("autoencoder", "learns to compress images to 8 numbers");
  program.settings.epoch = 10;
  program.settings.batchsize = 50;
  program.settings.lr = 0.01;
  program.train_data = made_up_images;
  program.create_model = create_autoencoder;
  program.columns = {"epoch", "main/loss", "elapsed_time"};
  return program.run(argc, argv);
}

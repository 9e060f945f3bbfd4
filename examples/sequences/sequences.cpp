// Learns whether more tokens of a line are low than high, for lines of any length, with all flags:
// mpirun -np 2 sequences
#include <fstream>
#include <string>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t vocabulary = 20, classes = 2;

// Lines like "1 3 17 4 4": a label, then from one to thirty tokens.
void write_lines(const char* path, int count, std::uint64_t seed) {
  std::ofstream file(path);
  RandomStream random(seed);
  for (int line = 0; line < count; ++line) {
    const std::uint64_t length = 1 + random.below(30);
    std::uint64_t low = 0;
    std::string tokens;
    for (std::uint64_t i = 0; i < length; ++i) {
      const std::uint64_t token = random.below(vocabulary);
      low += token < vocabulary / 2 ? 1 : 0;
      tokens += ' ' + std::to_string(token);
    }
    file << (2 * low > length ? 1 : 0) << tokens << '\n';
  }
}

// Called on rank 0, which sends each rank its share. Batches are padded to a multiple of 8 tokens.
std::shared_ptr<const Dataset> made_up_lines(const char* path, int count, std::uint64_t seed) {
  write_lines(path, count, seed);
  return read_dataset(*open_token_lines(path, vocabulary, {.classes = classes, .pad_to = 8}));
}

// Counts each token in each line: N x vocabulary. After the end of a line there is padding.
Tensor count_tokens(const Batch& batch) {
  const Device device = batch["x"].device();
  // Replaying a recorded step would skip this code.
  if (!device.is_cpu()) refuse_recording("tokens are counted on the host");
  const Tensor tokens = batch["x"].to(Device::cpu()),
               lengths = batch.lengths("x").to(Device::cpu());
  const std::int64_t padded = tokens.shape()[1];
  const Tensor counts = Tensor::zeros({batch.size(), vocabulary});
  for (std::int64_t row = 0; row < batch.size(); ++row)
    for (std::int64_t i = 0; i < lengths.data<std::int64_t>()[row]; ++i) {
      const std::int32_t token = tokens.data<std::int32_t>()[row * padded + i];
      counts.data<float>()[row * vocabulary + token] += 1;
    }
  return counts.to(device);
}

TrainingModel create_bag_of_tokens(const DatasetHeader& data) {
  auto model = std::make_unique<Linear>(vocabulary, data.field("t").classes);
  LossFunction loss = [model = model.get()](const Batch& batch, Observation& report) {
    const Variable scores = (*model)(Variable(count_tokens(batch)));
    const auto [correct, counted] = F::count_correct(scores, batch["t"]);
    report.add_sum("accuracy", correct, counted);
    return F::softmax_cross_entropy(scores, batch["t"]);
  };
  return {std::move(model), std::move(loss)};
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("sequences", "learns whether lines have more low tokens than high ones");
  program.settings.epoch = 10;
  program.settings.batchsize = 50;
  program.settings.lr = 0.03;
  program.train_data = [] { return made_up_lines("train_lines.txt", 4000, 0); };
  program.test_data = [] { return made_up_lines("test_lines.txt", 500, 1); };
  program.create_model = create_bag_of_tokens;
  return program.run(argc, argv);
}

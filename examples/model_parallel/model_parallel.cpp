// A model whose halves are on two ranks, with all flags: mpirun -np 2 model_parallel
//
// On 4 ranks there are two such models, which train data-parallel.
#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t inputs = 256, units = 100, classes = 10;

std::unique_ptr<Dataset> patterns(std::int64_t count, std::uint64_t split) {
  return std::make_unique<SyntheticDataset>(SyntheticOptions{
      .count = count, .example_shape = {inputs}, .classes = classes, .split = split});
}

std::unique_ptr<Layer> two_layers(std::int64_t in, std::int64_t out) {
  auto layers = std::make_unique<Sequential>();
  layers->append("l1", std::make_unique<Linear>(in, units)).append(F::relu);
  layers->append("l2", std::make_unique<Linear>(units, out));
  return layers;
}

// This rank's half. `model` has the two ranks of a model, which see the same batches. The first
// sends its result to the second, which computes the loss and sends the gradient back.
TrainingModel create_half(const DatasetHeader& data, Communicator& model) {
  auto half = std::make_unique<MultiNodeChainList>(model);
  const bool is_first = model.rank() == 0;
  if (is_first)
    half->add_link("first", two_layers(inputs, units), {.out = {1}});
  else
    half->add_link("second", two_layers(units, data.field("t").classes), {.in = {0}});
  return create_part_of_classifier(std::move(half), /*has_loss=*/!is_first);
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("model_parallel", "trains a model whose halves are on two ranks");
  program.settings.model_ranks = 2;
  program.settings.epoch = 5;
  program.settings.batchsize = 50;
  program.settings.lr = 0.003;
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  program.create_part = create_half;
  return program.run(argc, argv);
}

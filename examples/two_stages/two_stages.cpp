// A loop of your own with messages between ranks: mpirun -np 2 two_stages
//
// Rank 0 compresses vectors, and rank 1 restores them; gradients travel back.
#include <iostream>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t values = 32, units = 64, code = 4, batch_size = 100, steps = 500;

// Vectors in which `code` numbers determine all others. Both ranks make the same vectors.
Tensor batch_of(std::uint64_t step) {
  RandomStream random(step);
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < batch_size; ++i) {
    std::vector<float> hidden(code);
    for (float& h : hidden) h = random.normal();
    for (std::int64_t j = 0; j < values; ++j)
      numbers.push_back(hidden[j % code] * hidden[(j / code) % code]);
  }
  return Tensor::from<float>(numbers, {batch_size, values});
}

int train(int, char**) {
  const auto comm = create_communicator("auto");
  if (comm->size() != 2)
    fail_everywhere(ErrorKind::usage, "two_stages: expected 2 ranks, found {}", comm->size());
  const bool is_first = comm->rank() == 0;
  MLP stage(is_first ? values : code, units, is_first ? code : values);
  stage.initialize(/*seed=*/comm->rank());

  // Ranks have different layers, so each has an optimizer of its own.
  const auto optimizer = create_optimizer("adam");
  optimizer->setup(stage);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Tensor x = batch_of(step);
    const Tensor loss = optimizer->update(
        [&]() -> Variable {
          if (is_first) return F::send(stage(Variable(x)), *comm, 1);
          return F::mean_squared_error(stage(F::recv(*comm, 0)), x);
        },
        batch_size);
    if (!is_first && step % 100 == 0)
      std::cout << "step " << step << ", loss " << loss.item() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}

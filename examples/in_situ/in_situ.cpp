// A simulation that learns a surrogate of itself while it runs: mpirun -np 4 in_situ
//
// Most ranks simulate and send what they see to those that train (one of four). On one rank the two
// take turns. The surrogate makes four time steps at once: from 16 x 16 cells it predicts the
// middle 8 x 8. At the end it is compared with the solver, and solver.png and surrogate.png show
// both.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include <tasuki/tasuki.hpp>

#include "heat.hpp"
#include "picture.hpp"

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr int cells = 96, tile = 8, patch = tile + 2 * Heat::ghosts;  // in each direction
constexpr int stride = Heat::ghosts;  // time steps that the surrogate makes at once
constexpr int runs = 30, strides_per_run = 10, least_steps = 1500;

// --- the data, where the solver has them ---

const std::vector<Field> fields{{.name = "x", .shape = {1, patch, patch}},
                                {.name = "t", .shape = {1, tile, tile}, .is_target = true}};

// Every tile with the cells around it: windows over the solver's own array, which overlap.
ProgramArray patches_of(const Heat& heat) {
  const std::int64_t row = heat.row_length();
  return {heat.with_ghosts(),
          {heat.rows() / tile, heat.columns() / tile, 1, patch, patch},
          {tile * row, tile, 0, row, 1}};
}

ProgramArray tiles_of(const Heat& heat) {
  const std::int64_t row = heat.row_length();
  return {heat.inside(),
          {heat.rows() / tile, heat.columns() / tile, 1, tile, tile},
          {tile * row, tile, 0, row, 1}};
}

// Makes `stride` steps and calls `take` with the examples: patches before, tiles after.
template <class Take>
void advance(Heat& heat, const Take& take) {
  // The solver overwrites its array, so the patches of before are kept.
  const Tensor before = patches_of(heat).copy();
  for (int i = 0; i < stride; ++i) heat.step();
  take(ArrayDataset(
      {{"x", {before.data<float>(), before.shape()}, 2}, {"t", tiles_of(heat), 2, true}}));
}

// --- the surrogate ---

// The middle of fields, without the cells that are known only to compute it.
Tensor middle_of(const Tensor& fields) {
  const std::int64_t count = fields.shape()[0], rows = fields.shape()[2], row = fields.shape()[3];
  return ProgramArray(fields.data<float>() + Heat::ghosts * row + Heat::ghosts,
                      {count, 1, rows - 2 * Heat::ghosts, row - 2 * Heat::ghosts},
                      {rows * row, rows * row, row, 1})
      .copy();
}

// N x 1 x height x width cells to N x 1 x (height - 8) x (width - 8), the middle ones `stride` time
// steps later. A cell follows from 9 x 9, as in the solver. The layers compute the change.
class Surrogate : public Layer {
 public:
  Surrogate() {
    add("conv1", conv1_);
    add("conv2", conv2_);
  }
  Variable forward(const Variable& x) override {
    return conv2_(F::tanh(conv1_(x))) + Variable(middle_of(x.value()));
  }

 private:
  static constexpr int window = Heat::ghosts + 1, channels = 16;
  Conv2d conv1_{1, channels, window}, conv2_{channels, 1, window};
};

// `stride` time steps of a whole field on one rank.
void advance_by(Surrogate& surrogate, Heat& heat) {
  const Tensor found = predict(
      surrogate, tensor_over(heat.with_ghosts(), {1, 1, heat.row_length(), heat.row_length()}));
  for (int i = 0; i < cells; ++i)
    std::copy_n(found.data<float>() + i * cells, cells, heat.inside() + i * heat.row_length());
  heat.fill_ghosts();
}

// --- the two kinds of ranks ---

void train(Surrogate& surrogate, Optimizer& optimizer, StreamIterator& batches, int steps) {
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batches.next();
    optimizer.set("alpha", 0.004 / (1 + static_cast<double>(optimizer.t()) / 150));
    optimizer.update(
        [&] { return F::mean_squared_error(surrogate(Variable(batch["x"])), batch["t"]); },
        batch.size());
  }
}

void simulate(Heat& heat, const auto& take) {
  for (int run = 0; run < runs; ++run) {
    heat.start(static_cast<std::uint64_t>(run));
    for (int i = 0; i < strides_per_run; ++i) advance(heat, take);
  }
}

// Runs solver and surrogate from a start that was not trained on, and writes both pictures.
void compare(Surrogate& surrogate) {
  Heat solved(MPI_COMM_SELF, cells), predicted(MPI_COMM_SELF, cells);
  solved.start(1000);
  predicted.start(1000);
  constexpr int strides = 10;
  for (int i = 0; i < strides; ++i) {
    for (int step = 0; step < stride; ++step) solved.step();
    advance_by(surrogate, predicted);
  }
  double difference = 0, whole = 0;
  for (int i = 0; i < cells; ++i)
    for (int j = 0; j < cells; ++j) {
      const float value = solved.inside()[i * solved.row_length() + j];
      const float found = predicted.inside()[i * predicted.row_length() + j];
      difference += std::pow(found - value, 2);
      whole += std::pow(value, 2);
    }
  write_picture("solver.png", solved.inside(), cells, cells, solved.row_length());
  write_picture("surrogate.png", predicted.inside(), cells, cells, predicted.row_length());
  std::printf("after %d time steps, the surrogate differs from the solver by %.4f (relative)\n",
              strides * stride, std::sqrt(difference / whole));
}

void learn_on(MPI_Comm all, MPI_Comm trainers, Heat* own) {
  const CpuThreadScope threads(1);
  const auto communicator = create_communicator("auto", trainers);
  Surrogate surrogate;
  surrogate.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(surrogate);
  StreamIterator batches(all, fields, {.batch_size = 64, .capacity = 16384});
  int steps = 0;
  if (own != nullptr) {  // on one rank
    constexpr int steps_per_stride = least_steps / (runs * strides_per_run);
    simulate(*own, [&](const Dataset& examples) {
      batches.add(examples);
      train(surrogate, *optimizer, batches, steps_per_stride);
      steps += steps_per_stride;
    });
  } else {
    constexpr int at_once = 50;
    for (; batches.is_open() || steps < least_steps; steps += at_once)
      train(surrogate, *optimizer, batches, at_once);
  }
  if (communicator->rank() != 0) return;
  const StreamCounts counts = batches.counts();
  std::printf("%d steps; of %lld examples here, %lld were dropped, and %lld places were repeated\n",
              steps, static_cast<long long>(counts.arrived), static_cast<long long>(counts.dropped),
              static_cast<long long>(counts.repeated));
  compare(surrogate);
}

void simulate_on(MPI_Comm all, MPI_Comm solvers) {
  Heat heat(solvers, cells);
  // This solver is so fast that without waiting most examples would find no room.
  StreamSender sender(all, fields, {.waits = true});
  simulate(heat, [&](const Dataset& examples) { sender.send(examples); });
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  // As many as divide the field's tiles evenly; the others train.
  int solvers = std::max(ranks - std::max(ranks / 4, 1), 1);
  while (cells / tile % solvers != 0) --solvers;
  const bool simulates = rank < solvers, trains = rank >= solvers || ranks == 1;
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, simulates ? 0 : 1, rank, &side);

  int exit_code = 0;
  try {
    if (!trains) {
      simulate_on(MPI_COMM_WORLD, side);
    } else if (simulates) {
      Heat heat(side, cells);
      learn_on(MPI_COMM_WORLD, side, &heat);
    } else {
      learn_on(MPI_COMM_WORLD, side, nullptr);
    }
  } catch (const std::exception& error) {
    // The other ranks simulate on: their sends find nobody.
    std::fprintf(stderr, "rank %d: training has ended: %s\n", rank, error.what());
    exit_code = 1;
  }
  MPI_Comm_free(&side);
  MPI_Finalize();
  return exit_code;
}

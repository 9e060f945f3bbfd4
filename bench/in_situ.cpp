// What training costs inside another MPI program.
//
//   in_situ [ROUNDS = 40]
//
// On one rank: a step and a prediction of a perceptron 64-128-64 with batch 1, against their
// matrix products alone. On two ranks (a core each): time steps of a heat equation on rank 0:
// alone; while rank 1 trains on its own data, which shows what the two share (memory, caches, a
// core with two threads); and while they are sent to rank 1, which trains on them. Rounds of all
// take turns, so that a busy machine slows all; the median of a round's steps counts.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "communicator/mpi_comm.hpp"
#include "dataset/array_dataset.hpp"
#include "dataset/stream/stream_iterator.hpp"
#include "dataset/stream/stream_sender.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/predict.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "tensor/cpu_thread_scope.hpp"

using namespace tasuki;

namespace {

// Processor time of this thread: other work on the machine does not count. Neither part waits.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double>& seconds) {
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

double median_of(int calls, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    const double start = now();
    run();
    seconds.push_back(now() - start);
  }
  return median(seconds);
}

constexpr std::int64_t inputs = 64, units = 128, outputs = 64;

std::unique_ptr<Sequential> perceptron() {
  auto model = std::make_unique<Sequential>();
  model->append("l1", std::make_unique<Linear>(inputs, units))
      .append(functions::relu)
      .append("l2", std::make_unique<Linear>(units, outputs));
  model->initialize(1);
  return model;
}

// --- one rank ---

void compare_with_products(int rounds) {
  const auto model = perceptron();
  const auto optimizer = create_optimizer("adam");
  optimizer->setup(*model);
  const Tensor x = Tensor::full({1, inputs}, 0.3), t = Tensor::full({1, outputs}, 0.5);
  const Tensor w1 = Tensor::full({units, inputs}, 0.1), w2 = Tensor::full({outputs, units}, 0.1);
  const Tensor h = Tensor::full({1, units}, 0.1), y = Tensor::full({1, outputs}, 0.1);
  const auto forward = [&] {
    multiply({'N', 'T', 1, units, inputs, x.data<float>(), w1.data<float>(), h.data<float>(), 0});
    multiply({'N', 'T', 1, outputs, units, h.data<float>(), w2.data<float>(), y.data<float>(), 0});
  };
  const auto products = [&] {
    forward();
    // Gradients of the weights of both layers, and of what is between them.
    multiply({'T', 'N', outputs, units, 1, y.data<float>(), h.data<float>(), w2.data<float>(), 0});
    multiply({'N', 'N', 1, units, outputs, y.data<float>(), w2.data<float>(), h.data<float>(), 0});
    multiply({'T', 'N', units, inputs, 1, h.data<float>(), x.data<float>(), w1.data<float>(), 0});
  };
  const auto step = [&] {
    optimizer->update([&] { return functions::mean_squared_error((*model)(Variable(x)), t); }, 1);
  };
  const auto prediction = [&] { predict(*model, x); };
  std::vector<double> of_products, of_step, of_forward, of_prediction;
  constexpr int calls = 500;
  for (int round = 0; round < rounds; ++round) {
    of_products.push_back(median_of(calls, products));
    of_step.push_back(median_of(calls, step));
    of_forward.push_back(median_of(calls, forward));
    of_prediction.push_back(median_of(calls, prediction));
  }
  const double floor = median(of_products), whole = median(of_step);
  const double floor_of_prediction = median(of_forward), predicted = median(of_prediction);
  fmt::print("step        {:6.2f} us, products {:6.2f} us, beyond them {:6.2f} us\n", 1e6 * whole,
             1e6 * floor, 1e6 * (whole - floor));
  fmt::print("prediction  {:6.2f} us, products {:6.2f} us, beyond them {:6.2f} us\n",
             1e6 * predicted, 1e6 * floor_of_prediction, 1e6 * (predicted - floor_of_prediction));
}

// --- two ranks ---

constexpr std::int64_t cells = 1024, tile = 8;  // in each direction
constexpr std::int64_t examples_of_step = 64;
constexpr int sweeps = 8;  // of the solver over its field in a time step

class Heat {
 public:
  void step() {
    for (std::int64_t i = 1; i + 1 < cells; ++i)
      for (std::int64_t j = 1; j + 1 < cells; ++j) {
        const float* const u = &u_[static_cast<std::size_t>(i * cells + j)];
        next_[static_cast<std::size_t>(i * cells + j)] =
            *u + 0.2F * (u[-1] + u[1] + u[-cells] + u[cells] - 4 * *u) + 0.1F * *u * (1 - *u);
      }
    u_.swap(next_);
  }
  // Tiles of one row of tiles before the last sweep, and after it.
  ArrayDataset examples(std::int64_t number) const {
    const std::int64_t row = number % (cells / tile) * tile * cells;
    const ProgramArray x{u_.data() + row, {examples_of_step, tile, tile}, {tile, cells, 1}},
        t{next_.data() + row, {examples_of_step, tile, tile}, {tile, cells, 1}};
    return ArrayDataset({{"x", x}, {"t", t, 1, true}});
  }

 private:
  std::vector<float> u_ = std::vector<float>(cells * cells, 0.5F), next_ = u_;
};

const std::vector<Field> fields{{.name = "x", .shape = {tile, tile}},
                                {.name = "t", .shape = {tile, tile}, .is_target = true}};
constexpr int steps_of_round = 25;

double solver_round(StreamSender* sender) {
  Heat heat;
  std::int64_t number = 0;
  return median_of(steps_of_round, [&] {
    for (int sweep = 0; sweep < sweeps; ++sweep) heat.step();
    if (sender != nullptr) sender->send(heat.examples(number++));
  });
}

void train_on(const Batch& batch, Optimizer& optimizer, Sequential& model) {
  const Tensor t = batch["t"].reshape({batch.size(), outputs});
  optimizer.update([&] { return functions::mean_squared_error(model(Variable(batch["x"])), t); },
                   batch.size());
}

// Returns the number of training steps.
std::int64_t trainer_round(Optimizer& optimizer, Sequential& model) {
  StreamIterator batches(MPI_COMM_WORLD, fields, {.batch_size = 32});
  std::int64_t steps = 0;
  for (; batches.is_open(); ++steps) train_on(batches.next(), optimizer, model);
  return steps;
}

// Trains on its own examples until rank 0 has arrived, too.
void trainer_round_of_its_own(Optimizer& optimizer, Sequential& model) {
  StreamIterator batches(MPI_COMM_SELF, fields, {.batch_size = 32});
  batches.add(Heat().examples(0));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    train_on(batches.next(), optimizer, model);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
}

// Waits without taking a core.
void rest_until(int rank) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0 && rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void compare_solver(int rounds, int rank) {
  const auto communicator = create_communicator("naive", MPI_COMM_SELF);
  const auto model = perceptron();
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(*model);
  std::vector<double> alone, beside, together;
  std::int64_t steps = 0, dropped = 0;
  for (int round = 0; round < rounds; ++round) {
    rest_until(rank);
    if (rank == 0) alone.push_back(solver_round(nullptr));
    rest_until(rank);
    if (rank == 1) {
      trainer_round_of_its_own(*optimizer, *model);
    } else {
      beside.push_back(solver_round(nullptr));
      rest_until(rank);
    }
    rest_until(rank);
    if (rank == 1) {
      steps += trainer_round(*optimizer, *model);
    } else {
      StreamSender sender(MPI_COMM_WORLD, fields);
      together.push_back(solver_round(&sender));
      dropped += sender.dropped();
    }
  }
  if (rank == 1) {
    MPI_Send(&steps, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
    return;
  }
  MPI_Recv(&steps, 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const double own = median(alone), shared = median(beside), sending = median(together);
  fmt::print(
      "solver      {:6.1f} us a step alone, {:6.1f} us beside a training, {:6.1f} us while it is "
      "trained on: {:.3f} x and {:.3f} x\n"
      "            {} training steps during {} time steps, {} of {} examples dropped\n",
      1e6 * own, 1e6 * shared, 1e6 * sending, sending / own, sending / shared, steps,
      rounds * steps_of_round, dropped, rounds * steps_of_round * examples_of_step);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    const CpuThreadScope threads(1);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
    if (ranks == 1)
      compare_with_products(rounds);
    else
      compare_solver(rounds, rank);
  }
  MPI_Finalize();
  return 0;
}

// A program with its own MPI that trains, in one of these ways:
//
//   guest_program lone-error     rank 1's loss function throws inside JobGuard::run()
//   guest_program uncaught       an exception leaves main with a guard
//   guest_program exit           rank 1 calls exit(3) with a guard
//   guest_program no-guard       rank 1's loss function throws; the program goes on and returns 7
//   guest_program stall          two ranks wait for each other
//   guest_program stop FOLDER    asks itself to stop by SIGUSR1
//   guest_program own-handler    has a handler for SIGUSR1 itself
//   guest_program trainings N    trains N times, with streams, and says nothing
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dataset/array_dataset.hpp"
#include "dataset/stream/stream_iterator.hpp"
#include "dataset/stream/stream_sender.hpp"
#include "guest_training.hpp"
#include "job/job_guard.hpp"
#include "job/stall_limits.hpp"
#include "nn/predict.hpp"
#include "training/extensions/checkpoint.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace {

using namespace tasuki;
using namespace tasuki::testing;

int rank() {
  return rank_in(MPI_COMM_WORLD);
}

// One line, whole: other ranks print, too.
void say(const std::string& line) {
  std::fputs((line + '\n').c_str(), stdout);
  std::fflush(stdout);
}

int fail_on_rank_1() {
  GuestTraining training(MPI_COMM_WORLD);
  training.steps(0, 2);
  training.step(2, [](const Variable& y, const Tensor& t) {
    if (rank() == 1) throw std::runtime_error("the loss exploded");
    return functions::mean_squared_error(y, t);
  });
  return 0;
}

int go_on_without_guard() {
  try {
    fail_on_rank_1();
  } catch (const std::exception& error) {
    say("rank " + std::to_string(rank()) + " caught: " + error.what());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  say("rank " + std::to_string(rank()) + " simulates on");
  return 7;
}

int wait_for_each_other() {
  set_stall_limits({.warning = 0, .timeout = 0.5});
  const JobGuard guard(MPI_COMM_WORLD);
  const auto communicator = create_communicator("naive", MPI_COMM_WORLD);
  return guard.run([&] {
    if (rank() == 0)
      communicator->barrier();
    else
      communicator->recv(0);
    return 0;
  });
}

std::unique_ptr<Iterator> endless_batches() {
  static const std::vector<float> x(6 * GuestTraining::inputs), t(6 * GuestTraining::outputs);
  auto batches = std::make_unique<StreamIterator>(
      MPI_COMM_SELF,
      std::vector<Field>{{.name = "x", .shape = {GuestTraining::inputs}},
                         {.name = "t", .shape = {GuestTraining::outputs}, .is_target = true}},
      StreamOptions{.batch_size = 2});
  batches->add(ArrayDataset({{"x", {x.data(), {6, GuestTraining::inputs}}},
                             {"t", {t.data(), {6, GuestTraining::outputs}}, 1, true}}));
  return batches;
}

void (*handler_of(int signal))(int) {
  struct sigaction present {};
  sigaction(signal, nullptr, &present);
  return present.sa_handler;
}

int stop_by_signal(const char* folder) {
  const auto before = handler_of(SIGUSR1);  // MPICH has one
  int result = 0;
  {
    const JobGuard guard(MPI_COMM_WORLD);
    result = guard.run([&] {
      GuestTraining training(MPI_COMM_WORLD);
      Trainer trainer(std::make_unique<StandardUpdater>(
                          endless_batches(), training.optimizer(),
                          [&](const Batch& batch, Observation&) {
                            if (rank() == 1 && batch.ids()[0] >= 0) std::raise(SIGUSR1);
                            return functions::mean_squared_error(
                                training.model()(Variable(batch["x"])), batch["t"]);
                          }),
                      stop_after(1e6), folder);
      trainer.extend(std::make_unique<Checkpoint>());
      trainer.run();
      return 0;
    });
  }
  say(handler_of(SIGUSR1) == before ? "SIGUSR1 is given back" : "SIGUSR1 is kept");
  return result;
}

int signals_seen = 0;

int handle_signals_itself() {
  struct sigaction own {};
  own.sa_handler = [](int) { ++signals_seen; };
  own.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &own, nullptr);
  {
    const JobGuard guard(MPI_COMM_WORLD);
    std::raise(SIGUSR1);
  }
  std::raise(SIGUSR1);
  return signals_seen == 2 ? 0 : 1;
}

void train_once() {
  const std::vector<Field> fields{
      {.name = "x", .shape = {GuestTraining::inputs}},
      {.name = "t", .shape = {GuestTraining::outputs}, .is_target = true}};
  const std::vector<float> x(6 * GuestTraining::inputs), t(6 * GuestTraining::outputs);
  const ArrayDataset examples({{"x", {x.data(), {6, GuestTraining::inputs}}},
                               {"t", {t.data(), {6, GuestTraining::outputs}}, 1, true}});
  GuestTraining both(MPI_COMM_WORLD);
  both.steps(0, 2);
  const bool trains = rank() + 1 == tasuki::testing::size_of(MPI_COMM_WORLD);
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, trains ? 1 : 0, 0, &side);
  if (trains) {
    GuestTraining training(side, 2);
    StreamIterator batches(MPI_COMM_WORLD, fields, {.batch_size = 4});
    if (tasuki::testing::size_of(MPI_COMM_WORLD) == 1) batches.add(examples);
    for (int step = 0; step < 3; ++step) {
      const Batch batch = batches.next();
      training.optimizer().update(
          [&] {
            return functions::mean_squared_error(training.model()(Variable(batch["x"])),
                                                 batch["t"]);
          },
          batch.size());
    }
    predict(training.model(), tensor_over(x.data(), {6, GuestTraining::inputs}));
  } else {
    StreamSender sender(MPI_COMM_WORLD, fields);
    sender.send(examples);
  }
  MPI_Comm_free(&side);
}

int train_often(int times) {
  for (int i = 0; i < times; ++i) train_once();
  return 0;
}

int run(std::string_view way, char** argv) {
  if (way == "lone-error") return JobGuard(MPI_COMM_WORLD).run(fail_on_rank_1);
  if (way == "no-guard") return go_on_without_guard();
  if (way == "stall") return wait_for_each_other();
  if (way == "stop") return stop_by_signal(argv[2]);
  if (way == "own-handler") return handle_signals_itself();
  if (way == "trainings") return train_often(std::atoi(argv[2]));
  const JobGuard guard(MPI_COMM_WORLD, {.watchdog = false, .signals = false});
  if (rank() == 1 && way == "exit") std::exit(3);
  if (rank() == 1 && way == "uncaught") throw std::runtime_error("nobody catches this");
  MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const int exit_code = run(argc > 1 ? argv[1] : "", argv);
  MPI_Finalize();
  return exit_code;
}

// Training inside a program that has its own MPI: what stays as it was, and what goes on at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "communicator/leave.hpp"
#include "dataset/array_dataset.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/stream/stream_iterator.hpp"
#include "dataset/stream/stream_sender.hpp"
#include "guest_training.hpp"
#include "job/job_guard.hpp"
#include "job/stall_limits.hpp"
#include "mpi_handles.hpp"
#include "nn/predict.hpp"
#include "saving/training_file.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu_thread_scope.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/checkpoint.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;

int rank() {
  return rank_in(MPI_COMM_WORLD);
}
int ranks() {
  return size_of(MPI_COMM_WORLD);
}

// --- what stays as it was ---

// What a program may rely on.
struct Surroundings {
  MpiHandles handles = open_mpi_handles();
  std::ptrdiff_t threads = std::distance(fs::directory_iterator("/proc/self/task"), {});
  std::map<int, void (*)(int)> signals = handlers_of_signals();
  std::terminate_handler at_terminate = std::get_terminate();
  MPI_Errhandler on_error = error_handler(MPI_COMM_WORLD);
  unsigned control = floating_point();
  off_t written = size_of_output();

  static std::map<int, void (*)(int)> handlers_of_signals() {
    std::map<int, void (*)(int)> found;
    for (int signal = 1; signal < SIGRTMIN; ++signal) {
      struct sigaction present {};
      if (sigaction(signal, nullptr, &present) == 0) found[signal] = present.sa_handler;
    }
    return found;
  }
  static MPI_Errhandler error_handler(MPI_Comm comm) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(comm, &handler);
    const MPI_Errhandler found = handler;
    MPI_Errhandler_free(&handler);
    return found;
  }
  static unsigned floating_point() {
#if defined(__SSE2__)
    constexpr unsigned exceptions_so_far = 0x3f;
    return _mm_getcsr() & ~exceptions_so_far;
#else
    return 0;
#endif
  }
  static off_t size_of_output() {
    struct stat file {};
    return fstat(STDOUT_FILENO, &file) == 0 ? file.st_size : -1;
  }
};

// Standard output is a file meanwhile. What it has at the end, such as failures, is printed then.
class OutputInFile {
 public:
  OutputInFile() : before_(dup(STDOUT_FILENO)), file_(open(".", O_TMPFILE | O_RDWR, 0600)) {
    if (file_ < 0) file_ = dup(fileno(std::tmpfile()));
    std::fflush(stdout);
    dup2(file_, STDOUT_FILENO);
  }
  ~OutputInFile() {
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    close(before_);
    lseek(file_, 0, SEEK_SET);
    std::array<char, 4096> bytes;
    for (ssize_t n = 0; (n = read(file_, bytes.data(), bytes.size())) > 0;)
      std::fwrite(bytes.data(), 1, static_cast<std::size_t>(n), stdout);
    close(file_);
  }
  OutputInFile(const OutputInFile&) = delete;
  OutputInFile& operator=(const OutputInFile&) = delete;

 private:
  int before_, file_;
};

std::shared_ptr<const Dataset> patterns() {
  static std::vector<float> values(40 * GuestTraining::inputs),
      targets(40 * GuestTraining::outputs);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 13) / 13;
  return std::make_shared<ArrayDataset>(
      std::vector<ArrayField>{{"x", {values.data(), {40, GuestTraining::inputs}}},
                              {"t", {targets.data(), {40, GuestTraining::outputs}}, 1, true}});
}

std::unique_ptr<Trainer> create_trainer(GuestTraining& training, const fs::path& out,
                                        std::int64_t iterations) {
  const LossFunction loss = [&training](const Batch& batch, Observation&) {
    return functions::mean_squared_error(training.model()(Variable(batch["x"])), batch["t"]);
  };
  auto trainer = std::make_unique<Trainer>(
      std::make_unique<StandardUpdater>(
          create_shuffled_iterator(take_share(patterns(), training.communicator().size(),
                                              training.communicator().rank(), {}),
                                   2, /*seed=*/3),
          training.optimizer(), loss),
      stop_after(1000, iterations), out);
  trainer->extend(std::make_unique<LogReport>());
  return trainer;
}

// The folder of all ranks, which is rank 0's.
fs::path common_folder(const TemporaryFolder& own) {
  std::array<char, 256> path{};
  const std::string text = own.path().string();
  std::copy_n(text.begin(), std::min(text.size(), path.size() - 1), path.begin());
  MPI_Bcast(path.data(), path.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
  return path.data();
}

TEST(Guest, LeavesTheProgramAsItWas) {
  const TemporaryFolder own;
  const fs::path folder = common_folder(own);
  const OutputInFile output;
  const Surroundings before;
  for (int round = 0; round < 3; ++round) {
    const CpuThreadScope threads(1);
    GuestTraining training(MPI_COMM_WORLD);
    training.steps(0, 3);
    const auto trainer = create_trainer(training, folder / std::to_string(round), 5);
    trainer->extend(std::make_unique<Checkpoint>());
    trainer->run();
    StreamIterator batches(MPI_COMM_SELF, patterns()->header().fields, {.batch_size = 2});
    batches.add(*patterns());
    EXPECT_EQ(predict(training.model(), batches.next()["x"]).shape(),
              (Shape{2, GuestTraining::outputs}));
  }
  {
    const JobGuard guard(MPI_COMM_WORLD);
    GuestTraining training(MPI_COMM_WORLD);
    EXPECT_EQ(guard.run([&] {
      training.steps(0, 3);
      return 5;
    }),
              5);
    EXPECT_NE(Surroundings().signals, before.signals);
  }
  Surroundings after;
  // The kernel lists a thread for a moment after it has been joined.
  for (int looks = 0; looks < 500 && after.threads != before.threads; ++looks) {
    usleep(10'000);
    after = Surroundings();
  }
  EXPECT_EQ(after.handles, before.handles);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.signals, before.signals);
  EXPECT_EQ(after.at_terminate, before.at_terminate);
  EXPECT_EQ(after.on_error, before.on_error);
  EXPECT_EQ(after.control, before.control);
  EXPECT_EQ(after.written, before.written);
  MPI_Barrier(MPI_COMM_WORLD);  // before rank 0 removes the folder
}

TEST(Guest, ComputesWithItsOwnThreadsForATime) {
  const int before = cpu_threads();
  {
    const CpuThreadScope threads(before + 1);
    EXPECT_EQ(cpu_threads(), before + 1);
    const volatile float smallest = 1e-40F;
    EXPECT_EQ(smallest * 1.0F, 0.0F) << "subnormal numbers count as zero";
  }
  EXPECT_EQ(cpu_threads(), before);
  const volatile float smallest = 1e-40F;
  EXPECT_NE(smallest * 1.0F, 0.0F);
}

TEST(Guest, HasOneGuardAtATime) {
  const JobGuard guard(MPI_COMM_WORLD, {.watchdog = false, .signals = false});
  expect_error(ErrorKind::usage, {"a second JobGuard"}, [] { JobGuard second(MPI_COMM_WORLD); });
  expect_error(ErrorKind::usage, {"MPI_COMM_NULL"}, [] { JobGuard second(MPI_COMM_NULL); });
}

// Ranks of other nodes go on; they do not take these for lost.
TEST(Guest, MayEndItsGuardBeforeOthers) {
  if (create_communicator("naive", MPI_COMM_WORLD)->inter_size() == 1)
    GTEST_SKIP() << "needs 2 nodes";
  const StallLimits before = stall_limits();
  set_stall_limits({.timeout = 6, .silence = 4});
  auto guard = std::make_unique<JobGuard>(MPI_COMM_WORLD);
  if (2 * rank_in(MPI_COMM_WORLD) >= ranks()) guard.reset();
  std::this_thread::sleep_for(std::chrono::seconds(8));
  guard.reset();
  set_stall_limits(before);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Guest, KeepsExceptionsWithoutThePartForErrors) {
  const JobGuard guard(MPI_COMM_WORLD, {.errors = false});
  EXPECT_THROW(static_cast<void>(guard.run([]() -> int { throw std::runtime_error("caught"); })),
               std::runtime_error);
}

// --- two trainings at once ---

std::vector<float> weights_alone(MPI_Comm comm, std::uint64_t seed, std::int64_t steps) {
  GuestTraining training(comm, seed);
  training.steps(0, steps);
  return training.weights();
}

TEST(TwoTrainings, TakeTurnsOnTheSameRanks) {
  GuestTraining first(MPI_COMM_WORLD, 1), second(MPI_COMM_WORLD, 2, "flat");
  for (std::int64_t number = 0; number < 6; ++number) {
    first.step(number);
    if (number % 2 == 0) second.steps(3 * number / 2, 3);
  }
  EXPECT_EQ(first.weights(), weights_alone(MPI_COMM_WORLD, 1, 6));
  GuestTraining alone(MPI_COMM_WORLD, 2, "flat");
  alone.steps(0, 9);
  EXPECT_EQ(second.weights(), alone.weights());
}

TEST(TwoTrainings, RunOnDifferentRanks) {
  if (ranks() == 1) GTEST_SKIP() << "needs 2 ranks";
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, 0, &half);
  // Different numbers of steps, so nothing may wait for the other half.
  const std::int64_t steps = 3 + 4 * (rank() % 2);
  const std::vector<float> together = weights_alone(half, 5, steps);
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (turn != rank() % 2) continue;
    EXPECT_EQ(weights_alone(half, 5, steps), together);
  }
  MPI_Comm_free(&half);
}

// Needs MPI_THREAD_MULTIPLE.
TEST(TwoTrainingsInThreads, RunOnTheSameRanks) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "this program has MPI_THREAD_FUNNELED";
  // Constructors are collective, so they have one order on all ranks.
  GuestTraining first(MPI_COMM_WORLD, 1), second(MPI_COMM_WORLD, 2);
  std::thread other([&] {
    const CpuThreadScope threads(1);
    second.steps(0, 200);
  });
  first.steps(0, 150);
  other.join();
  EXPECT_EQ(first.weights(), weights_alone(MPI_COMM_WORLD, 1, 150));
  EXPECT_EQ(second.weights(), weights_alone(MPI_COMM_WORLD, 2, 200));
}

// --- ranks that simulate, and ranks that train ---

TEST(Guest, TrainsOnWhatOtherRanksSimulate) {
  if (ranks() == 1) GTEST_SKIP() << "needs 2 ranks";
  const std::vector<Field> fields = patterns()->header().fields;
  const bool trains = 2 * rank() >= ranks();
  MPI_Comm side = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, trains ? 1 : 0, 0, &side);
  if (trains) {
    GuestTraining training(side);
    const TemporaryFolder own;
    std::array<char, 256> path{};
    const std::string text = own.path().string();
    std::copy_n(text.begin(), std::min(text.size(), path.size() - 1), path.begin());
    MPI_Bcast(path.data(), path.size(), MPI_CHAR, 0, side);
    double first = 0, last = 0;
    const LossFunction loss = [&](const Batch& batch, Observation&) {
      Variable found =
          functions::mean_squared_error(training.model()(Variable(batch["x"])), batch["t"]);
      last = found.value().item();
      if (first == 0) first = last;
      return found;
    };
    Trainer trainer(std::make_unique<StandardUpdater>(
                        std::make_unique<StreamIterator>(
                            MPI_COMM_WORLD, fields,
                            StreamOptions{.batch_size = 8, .capacity = 64, .steps_per_epoch = 20}),
                        training.optimizer(), loss),
                    stop_after(10), path.data());
    trainer.extend(std::make_unique<LogReport>());
    trainer.run();
    EXPECT_EQ(trainer.updater().iteration(), 200);
    EXPECT_LT(last, first / 2);
    MPI_Barrier(side);
  } else {
    StreamSender sender(MPI_COMM_WORLD, fields, {.window = 50});
    while (sender.is_open()) sender.send(*patterns());
    EXPECT_GT(sender.sent(), 0);
  }
  MPI_Comm_free(&side);
}

// --- saving ---

TEST(Guest, GoesOnFromItsOwnFileWithTheSameBits) {
  const TemporaryFolder own;
  const fs::path file = common_folder(own) / "training.npz";
  {
    GuestTraining training(MPI_COMM_WORLD);
    training.steps(0, 4);
    save_training(file, training.optimizer(), {{"step", 4}, {"time step of the solver", 700}});
  }
  GuestTraining training(MPI_COMM_WORLD, /*seed=*/99);
  const ProgramNumbers numbers = load_training(file, training.optimizer());
  EXPECT_EQ(numbers, (ProgramNumbers{{"step", 4}, {"time step of the solver", 700}}));
  EXPECT_EQ(training.optimizer().t(), 4);
  training.steps(numbers.at("step"), 3);
  EXPECT_EQ(training.weights(), weights_alone(MPI_COMM_WORLD, 1, 7));

  save_training(file, training.optimizer());
  EXPECT_EQ(load_training(file, training.optimizer()), ProgramNumbers());
  expect_error(ErrorKind::missing, {"no-such-file"},
               [&] { load_training(file.parent_path() / "no-such-file", training.optimizer()); });
  expect_error(ErrorKind::usage, {"'a/b'"}, [&] {
    save_training(file, training.optimizer(), {{"a/b", 1}});
  });
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Guest, SavesATrainerBetweenTwoRuns) {
  const TemporaryFolder own;
  const fs::path folder = common_folder(own);
  GuestTraining whole(MPI_COMM_WORLD), begun(MPI_COMM_WORLD), resumed(MPI_COMM_WORLD, 99);
  create_trainer(whole, folder / "whole", 9)->run();
  const auto first = create_trainer(begun, folder / "first", 4);
  first->run();
  save_snapshot(folder / "state.npz", *first);
  const auto second = create_trainer(resumed, folder / "second", 9);
  resume(folder / "state.npz", *second);
  second->run();
  EXPECT_EQ(resumed.weights(), whole.weights());
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace tasuki::testing

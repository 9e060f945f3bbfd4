// The threads in which the workers of a process compute.
#include "training/workers/worker_threads.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <memory>

#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/forked_child.hpp"

namespace tasuki::testing {
namespace {

using ::testing::ElementsAre;

TEST(WorkerThreads, RunConcurrently) {
  WorkerThreads workers({1, 1, 1});
  std::barrier meet(3);  // passes only when all are in it
  std::vector<int> seen(3);
  for (int round = 0; round < 100; ++round)
    workers.run([&](std::size_t worker) {
      meet.arrive_and_wait();
      ++seen[worker];
    });
  EXPECT_THAT(seen, ElementsAre(100, 100, 100));
}

TEST(WorkerThreads, AreNotJoinedInAForkedChild) {
  auto workers = std::make_unique<WorkerThreads>(std::vector<int>{1, 1, 1});
  workers->run([](std::size_t) {});
  EXPECT_EQ(status_of_child([&] { workers.reset(); }), 0);
}

TEST(WorkerThreads, InheritSettingsOfTheirCreator) {
  set_conv_algorithm(ConvAlgorithm::direct);
  WorkerThreads workers({1, 1});
  set_conv_algorithm(ConvAlgorithm::fastest);
  std::vector<ConvAlgorithm> found(2);
  workers.run([&](std::size_t worker) { found[worker] = conv_algorithm(); });
  EXPECT_EQ(found, (std::vector{ConvAlgorithm::fastest, ConvAlgorithm::direct}));
}

TEST(WorkerThreads, HaveTheirOwnComputingThreads) {
  WorkerThreads workers({1, 3, 2});
  std::vector<int> threads(3);
  workers.run([&](std::size_t worker) { threads[worker] = cpu_threads(); });
  EXPECT_THAT(threads, ElementsAre(1, 3, 2));
}

TEST(WorkerThreads, ThrowTheFirstFailureOnceAllAreDone) {
  WorkerThreads workers({1, 1, 1});
  std::atomic<int> done = 0;
  const auto work = [&](std::size_t worker) {
    ++done;
    if (worker > 0) fail(ErrorKind::data, "worker {} failed", worker);
  };
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(error_of([&] { workers.run(work); }), "worker 1 failed");
    EXPECT_EQ(done, 3 * round);
  }
}

TEST(WorkerThreads, CanStayUnused) {
  const WorkerThreads workers({1, 1});
}

}  // namespace
}  // namespace tasuki::testing

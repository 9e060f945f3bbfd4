// Memory that the ranks of a node share: who sees what, how it is freed, and that it leaves nothing
// behind.
#include "communicator/node/shared_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "communicator/mpi/mpi.hpp"
#include "communicator/node/node_array.hpp"
#include "communicator/node/shared_arenas.hpp"
#include "communicator/node/shared_counter.hpp"
#include "communicator_fixture.hpp"

namespace tasuki {
namespace {

// Both ways to share: found through /proc, and by a name in /dev/shm.
class SharedMemory : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, SharedMemory, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Anonymous") : std::string("Named");
});

// Where /proc/self/pagemap cannot be read there are no such arrays.
TEST(NodeArrays, KeepPrivateWritesUntilPublishedOrDiscarded) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  constexpr std::int64_t bytes = 100'000;
  const auto array = NodeArray::make(bytes, node.get());
  if (!array) GTEST_SKIP() << "/proc/self/pagemap cannot be read";
  auto* const shared = static_cast<char*>(array->shared()->data());
  auto* const own = static_cast<char*>(array->own()->data());
  EXPECT_TRUE(array->written().empty());

  // What one writes in shared memory all see in both places.
  if (node.rank() == 0) shared[70'000] = 7;
  array->barrier();
  EXPECT_EQ(shared[70'000], 7);
  EXPECT_EQ(own[70'000], 7);

  const auto mine = static_cast<char>(node.rank() + 1);
  own[70'000] = own[10] = mine;
  array->barrier();
  EXPECT_EQ(own[10], mine);
  EXPECT_EQ(shared[10], 0);
  const std::vector<Range> written = array->written();
  ASSERT_EQ(written.size(), 2U);
  for (const auto& [pages, place] : {std::pair(written[0], 10), std::pair(written[1], 70'000)}) {
    EXPECT_LE(pages.begin, place);
    EXPECT_GT(pages.end, place);
  }

  // The last rank's, and only in these bytes.
  array->barrier();
  if (node.rank() + 1 == node.size()) array->publish(written, {0, 65'536});
  array->barrier();
  EXPECT_EQ(shared[10], node.size());
  EXPECT_EQ(shared[70'000], 7);
  EXPECT_EQ(own[10], mine);
  array->forget(written);
  EXPECT_EQ(own[10], node.size());
  EXPECT_EQ(own[70'000], 7);
  EXPECT_TRUE(array->written().empty());
}

TEST(NodeArrays, OutliveTheirOwnerInStorages) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  auto array = NodeArray::make(5000, node.get());
  if (!array) GTEST_SKIP() << "/proc/self/pagemap cannot be read";
  const std::shared_ptr<Storage> own = array->own();
  if (node.rank() == 0) static_cast<char*>(array->shared()->data())[4999] = 5;
  array->barrier();
  array.reset();
  EXPECT_EQ(static_cast<const char*>(own->data())[4999], 5);
}

TEST_P(SharedMemory, IsReadableAndWritableByEveryRank) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  const auto rank = static_cast<std::size_t>(node.rank());
  // Sizes differ; one is nothing at all.
  const auto blocks = share_memory(rank * 5000, node.get(), GetParam());
  ASSERT_EQ(blocks.size(), static_cast<std::size_t>(node.size()));
  for (std::size_t other = 0; other < blocks.size(); ++other) {
    ASSERT_EQ(blocks[other].bytes(), other * 5000);
    if (other > 0) {
      EXPECT_EQ(blocks[other].data()[rank], std::byte{0});
    }
  }
  MPI_Barrier(node.get());
  for (std::size_t other = 1; other < blocks.size(); ++other)
    blocks[other].data()[rank] = static_cast<std::byte>(rank + 1);
  MPI_Barrier(node.get());
  for (std::size_t other = 1; other < blocks.size(); ++other)
    for (std::size_t writer = 0; writer < blocks.size(); ++writer)
      EXPECT_EQ(blocks[other].data()[writer], static_cast<std::byte>(writer + 1));
}

TEST_P(SharedMemory, LeavesNoNameBehind) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  const auto blocks = share_memory(1 << 20, node.get(), GetParam());
  // Other jobs may have files there for a moment.
  const std::string own = fmt::format("tasuki-{}-{}-", getuid(), getpid());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().filename().string().rfind(own, 0), std::string::npos) << entry.path();
}

// More than there can be: an error on every rank, not a signal at the first use.
TEST(SharedMemoryErrors, ExplainExcessiveRequests) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  try {
    share_memory(std::size_t{1} << 50, node.get(), false);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string(error.what()).find("cannot share memory"), std::string::npos);
  }
}

// Every rank learns which one failed, and why.
TEST(SharedMemoryErrors, AreNamedOnAllRanks) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  const bool is_last = node.rank() == node.size() - 1;
  int last = 0;  // in the job
  MPI_Comm_rank(MPI_COMM_WORLD, &last);
  MPI_Bcast(&last, 1, MPI_INT, node.size() - 1, node.get());
  try {
    // By name: /dev/shm has a limit, memory without a name takes all there is.
    share_memory(is_last ? std::size_t{1} << 50 : 100, node.get(), false);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string reason = "rank " + std::to_string(last) + ": reserving ";
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST(SharedArenas, LocateStoragesUntilFreed) {
  const MpiComm node = MpiComm::split_by_memory(MPI_COMM_WORLD);
  SharedArenas arenas;
  auto first = arenas.allocate(100, node.get());
  auto second = arenas.allocate(static_cast<std::size_t>(node.rank()) * 10000, node.get());
  const auto* begin = static_cast<const std::byte*>(first->data());
  EXPECT_EQ(arenas.find(begin + 99).segment->number, 1u);
  EXPECT_EQ(arenas.find(begin + 99).offset, 99u);
  EXPECT_EQ(arenas.find(second->data()).segment->number, 2u);
  int here = 0;
  EXPECT_EQ(arenas.find(&here).segment, nullptr);
  const void* freed = first->data();
  first.reset();
  EXPECT_EQ(arenas.find(freed).segment, nullptr);
}

TEST(SharedArenas, StoragesOutliveTheCommunicator) {
  auto comm = create_communicator("hierarchical");
  std::vector<std::shared_ptr<Storage>> storages;
  for (std::size_t i = 0; i < 4; ++i) storages.push_back(comm->allocate(1000 * i));
  // Ranks free different blocks; the remaining ones still work.
  storages.erase(storages.begin() + comm->rank() % 3);
  const Tensor last(storages.back(), 0, {100}, DType::float32);
  last.fill(1);
  comm->allreduce(last);
  EXPECT_EQ(last.data<float>()[50], comm->size());
  comm.reset();
  last.fill(2);
  EXPECT_EQ(last.data<float>()[99], 2);
}

TEST(SharedArenas, AreInitializedToZero) {
  const auto comm = create_communicator("auto");
  const Tensor fresh(comm->allocate(40'000), 0, {10'000}, DType::float32);
  for (const float value : fresh.span<float>()) ASSERT_EQ(value, 0);
}

TEST(SharedCounter, WakesSleepersAcrossTheWrap) {
  SharedCounter counter;
  const std::uint32_t start = std::uint32_t{0} - 2;
  counter.set(start);
  std::atomic<int> seen = 0;
  std::thread waiter([&] {
    for (std::uint32_t step = 1; step <= 4; ++step) {
      counter.wait_for(start + step);
      seen = static_cast<int>(step);
    }
  });
  for (std::uint32_t step = 1; step <= 4; ++step) {
    // Long enough for the waiter to have gone to sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LT(seen, static_cast<int>(step));
    counter.set(start + step);
  }
  waiter.join();
  EXPECT_EQ(seen, 4);
}

TEST(SharedBarrier, HoldsThreadsBackMoreThanCores) {
  constexpr std::uint32_t threads = 8;
  constexpr int rounds = 200;
  SharedBarrier barrier;
  std::atomic<int> arrivals = 0;
  std::atomic<bool> early = false;
  std::vector<std::thread> pool;
  for (std::uint32_t thread = 0; thread < threads; ++thread)
    pool.emplace_back([&] {
      for (int round = 1; round <= rounds; ++round) {
        ++arrivals;
        barrier.wait(threads);
        if (arrivals < round * static_cast<int>(threads)) early = true;
        barrier.wait(threads);
      }
    });
  for (auto& thread : pool) thread.join();
  EXPECT_FALSE(early);
}

}  // namespace
}  // namespace tasuki

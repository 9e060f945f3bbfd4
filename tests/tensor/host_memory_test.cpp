// How much memory there is, from files as the kernel writes them.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "tensor/host_memory.hpp"
#include "tensor/out_of_memory.hpp"
#include "tensor/storage.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

class MemoryLimits : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::size_t free() const { return memory().free; }
  HostMemory memory() const { return find_host_memory({folder / "proc", folder / "cgroup"}); }

  testing::TemporaryFolder folder;
};

TEST_F(MemoryLimits, UseTheMachinesMemory) {
  write("proc/meminfo",
        "MemTotal:       24684000 kB\nMemFree:  1000 kB\nMemAvailable:    2000 kB\n");
  EXPECT_EQ(free(), 2000u * 1024);
  EXPECT_EQ(memory().total, std::size_t{24684000} * 1024);
}

TEST_F(MemoryLimits, UseTheSmallestCgroupLimit) {
  write("proc/meminfo", "MemTotal: 300000 kB\nMemAvailable:    200000 kB\n");
  write("proc/self/cgroup", "0::/jobs/17\n");
  write("cgroup/jobs/17/memory.max", "max\n");
  write("cgroup/jobs/17/memory.current", "5000000\n");
  EXPECT_EQ(free(), 200000u * 1024);
  write("cgroup/jobs/memory.max", "9000000\n");
  write("cgroup/jobs/memory.current", "8000000\n");
  EXPECT_EQ(free(), 1000000u);
  EXPECT_EQ(memory().total, 9000000u);
  // Caches are given back when memory runs short.
  write("cgroup/jobs/memory.stat", "anon 7000000\ninactive_file 300000\nactive_file 20000\n");
  EXPECT_EQ(free(), 1320000u);
  // Inside a container the top is its own group.
  write("cgroup/memory.max", "4000\n");
  write("cgroup/memory.current", "4100\n");
  EXPECT_EQ(free(), 0u);
}

TEST_F(MemoryLimits, SupportCgroupVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "400\n");
  EXPECT_EQ(free(), 600u);
}

// Ranks of a node share the machine; limits of a process are not shared.
TEST_F(MemoryLimits, ProcessLimitsAreNotShared) {
  if (testing::has_address_sanitizer)
    GTEST_SKIP() << "AddressSanitizer itself takes more than can be limited here";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = std::size_t{1} << 40;
  if (limit.rlim_cur > limit.rlim_max) GTEST_SKIP() << "this process may take less than a tebibyte";
  write("proc/meminfo", "MemTotal: 300000 kB\nMemAvailable: 200000 kB\n");
  const std::size_t kilobytes = (limit.rlim_cur >> 10) - 80000;
  write("proc/self/status", fmt::format("VmData: {} kB\n", kilobytes));
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  const auto share = [&](int ranks) {
    return find_host_memory({folder / "proc", folder / "cgroup"}, ranks).free / 1024;
  };
  EXPECT_EQ(share(1), 80000u);
  EXPECT_EQ(share(2), 80000u);
  EXPECT_EQ(share(4), 50000u);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

// Bytes that RLIMIT_DATA counts.
std::size_t data_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) * 1024;
  return 0;
}

// Not only when the pool itself needs memory: arenas that ranks share are none of its blocks.
TEST(Memory, ReturnsCachedBlocksFirst) {
  if (testing::has_address_sanitizer)
    GTEST_SKIP() << "AddressSanitizer ends a program that finds no memory";
  constexpr std::size_t size = std::size_t{256} << 20;
  allocate_host(size);
  ASSERT_GE(host_pool_statistics().cached, size);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = data_of_process();  // all that is left is what the pool keeps
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  EXPECT_NO_THROW(require_host_memory(size / 2));
  EXPECT_THROW(require_host_memory(size), OutOfMemory);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

TEST(Memory, RejectsExcessiveRequestsWithFigures) {
  require_host_memory(1 << 20);
  try {
    require_host_memory(std::size_t{1} << 60);
    FAIL() << "an exbibyte was found";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.figures().requested, std::size_t{1} << 60);
    EXPECT_GT(error.figures().free, 0u);
    EXPECT_GT(error.figures().total, error.figures().free);
    EXPECT_NE(std::string(error.what()).find("cpu is out of memory: 1099511627776.0 MiB more"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tasuki

// The rule for threads, CPU lists, and the banner that shows both.

#include "program/start/processors.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "program/report/banner.hpp"

namespace tasuki::program {
namespace {

TEST(Threads, ShareCoresWithinTheBinding) {
  struct Case {
    std::optional<std::int64_t> requested;
    int cores, ranks, mask, threads, lost;
  };
  const Case cases[] = {
      {std::nullopt, 8, 1, 8, 8, 0},  // alone
      {std::nullopt, 8, 2, 8, 4, 0},  // unbound
      {std::nullopt, 8, 2, 1, 1, 3},  // mpirun's default for two ranks: a core each
      {std::nullopt, 8, 3, 8, 2, 0},  // rounds down
      {std::nullopt, 2, 4, 2, 1, 0},  // more ranks than cores
      {std::nullopt, 4, 1, 2, 2, 2},  // taskset
      {std::nullopt, 4, 4, 2, 1, 0},  // hyperthreads in the mask
      {std::nullopt, 4, 1, 0, 1, 3},  // the mask is not known
      {3, 1, 4, 1, 3, 0},             // asked for
  };
  for (const Case& c : cases) {
    const ThreadPlan plan =
        plan_threads(requested_threads(c.requested, nullptr), c.cores, c.ranks, c.mask);
    EXPECT_EQ(plan.origin, c.requested ? "--threads" : "");
    EXPECT_EQ(plan.threads, c.threads) << c.cores << " cores, " << c.ranks << " ranks";
    EXPECT_EQ(plan.lost_to_binding, c.lost) << c.cores << " cores, " << c.ranks << " ranks";
  }
}

TEST(Threads, PreferTheFlagOverTheEnvironment) {
  const auto text = [](std::optional<std::int64_t> flag, const char* omp_num_threads) {
    const auto request = requested_threads(flag, omp_num_threads);
    return request ? fmt::format("{} {}", request->threads, request->origin) : "";
  };
  EXPECT_EQ(text(2, "3"), "2 --threads");
  EXPECT_EQ(text(std::nullopt, "3"), "3 OMP_NUM_THREADS");
  EXPECT_EQ(text(std::nullopt, "3,2"), "3 OMP_NUM_THREADS");
  for (const char* none : {"", "x", "0", "-1", "5000", "3 2"})
    EXPECT_EQ(text(std::nullopt, none), "") << none;
  EXPECT_EQ(text(std::nullopt, nullptr), "");
  const ThreadPlan plan = plan_threads(requested_threads(std::nullopt, "9"), 4, 2, 1);
  EXPECT_EQ(plan.threads, 9);
  EXPECT_EQ(plan.lost_to_binding, 0);
}

TEST(Processors, AreDetected) {
  const Processors found = find_processors();
  EXPECT_GE(found.cores, 1);
  ASSERT_FALSE(found.cpus.empty());
  EXPECT_TRUE(std::is_sorted(found.cpus.begin(), found.cpus.end()));
}

TEST(Processors, PreferCoresNearTheDevice) {
  using Cpus = std::vector<int>;
  EXPECT_EQ(preferred_cpus(Cpus{0, 1, 2, 3}, Cpus{2, 3, 4}), (Cpus{2, 3}));
  EXPECT_EQ(preferred_cpus(Cpus{0, 1}, Cpus{2, 3}), (Cpus{0, 1}));
  EXPECT_EQ(preferred_cpus(Cpus{0, 1}, Cpus{}), (Cpus{0, 1}));
  EXPECT_EQ(cpus_near("ffff:ff:1f.7"), Cpus{});
}

TEST(Processors, CanBeBoundToAThread) {
  const Processors before = find_processors();
  const std::vector<int> first{before.cpus.front()};
  ASSERT_TRUE(run_on(first));
  EXPECT_EQ(find_processors().cpus, first);
  EXPECT_TRUE(run_on(before.cpus));
}

TEST(Processors, FormatShortCpuLists) {
  EXPECT_EQ(cpu_list(std::vector<int>{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(cpu_list(std::vector<int>{5}), "5");
  EXPECT_EQ(cpu_list(std::vector<int>{1, 3, 5, 6}), "1,3,5-6");
  EXPECT_EQ(cpu_list(std::vector<int>{}), "");
}

TEST(Banner, MapsRanksToHostsDevicesAndCores) {
  const std::string text = banner_text({{"Num unit", "1000"}},
                                       {{"node-a", "cpu", "0-3", 4, 0}, {"b", "cpu", "7", 1, 3}});
  EXPECT_NE(text.find("Num unit: 1000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("   0  node-a  cpu           4  0-3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("   1  b       cpu           1  7\n"), std::string::npos) << text;
  EXPECT_NE(text.find("binds rank 1 to 1 of the 4 cores"), std::string::npos) << text;
  EXPECT_NE(text.find("--bind-to none"), std::string::npos) << text;
}

TEST(Banner, NamesOriginOfThreadCount) {
  const RankPlace by_cores{"a", "cpu", "0", 1, 0}, by_flag{"a", "cpu", "0", 1, 0, "--threads"},
      by_environment{"b", "cpu", "0", 1, 0, "OMP_NUM_THREADS"};
  const auto expect = [](const std::vector<RankPlace>& places, const std::string& line) {
    const std::string text = banner_text({}, places);
    EXPECT_NE(text.find("\nthreads: " + line + '\n'), std::string::npos) << text;
  };
  expect({by_cores, by_cores}, "the node's cores shared among its ranks");
  expect({by_flag, by_flag}, "as --threads says");
  // Where mpirun does not hand the variable on to other nodes.
  expect({by_environment, by_environment, by_cores},
         "as OMP_NUM_THREADS says (rank 0); the node's cores shared among its ranks (rank 2)");
}

TEST(Banner, OmitsHarmlessBindingAndShortensLongMaps) {
  const std::vector<RankPlace> places(100, RankPlace{"n", "cpu", "0", 1, 0});
  const std::string text = banner_text({}, places);
  EXPECT_EQ(text.find("bind"), std::string::npos);
  EXPECT_NE(text.find("and 36 more ranks"), std::string::npos) << text;
}

// A process that may run on one processor is on its socket.
TEST(Sockets, AreFoundForProcessorsOfOneSocket) {
  const std::vector<int> all = find_processors().cpus;
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(socket_of({}), std::nullopt);
  std::set<std::optional<int>> sockets;
  for (const int cpu : all) sockets.insert(socket_of(std::vector<int>{cpu}));
  if (sockets.contains(std::nullopt)) GTEST_SKIP() << "the machine's sockets are not known";
  EXPECT_EQ(socket_of(all), sockets.size() == 1 ? *sockets.begin() : std::nullopt);
}

}  // namespace
}  // namespace tasuki::program

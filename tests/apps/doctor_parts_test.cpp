// The parts of tasuki-doctor that need no processes.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "core/error.hpp"
#include "tensor/cuda_loading/nvidia_libraries.hpp"
#include "tools/doctor/bounded.hpp"
#include "tools/doctor/check.hpp"
#include "tools/doctor/clocks.hpp"
#include "tools/doctor/links.hpp"
#include "tools/doctor/report.hpp"

namespace tasuki::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Nodes of two ranks each.
Topology topology_of(int nodes) {
  std::vector<int> groups;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 2 * nodes; ++rank) {
    groups.push_back(rank / 2);
    hosts.push_back("node" + std::to_string(rank / 2 + 1));
  }
  return make_topology(0, groups, hosts);
}

TEST(Tournament, EachMeetsEachOtherOnce) {
  for (const int members : {2, 3, 4, 7, 8, 13}) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < tournament_rounds(members); ++round)
      for (int member = 0; member < members; ++member) {
        const auto partner = partner_in(round, member, members);
        if (!partner) continue;
        ASSERT_NE(*partner, member);
        ASSERT_EQ(partner_in(round, *partner, members), member) << members << " " << round;
        if (member < *partner) met.emplace(member, *partner);
      }
    EXPECT_EQ(static_cast<int>(met.size()), members * (members - 1) / 2) << members;
  }
  EXPECT_EQ(tournament_rounds(1), 0);
}

// Answers come some time after the question: the fastest exchange says most.
TEST(Clocks, OffsetIsKnownUpToHalfTheFastestExchange) {
  const TimeStamps stamps[] = {{10, 17.9, 11}, {20, 27.52, 20.1}, {30, 38, 32}};
  const ClockOffset found = offset_by(stamps);
  EXPECT_NEAR(found.offset, 7.47, 1e-9);
  EXPECT_NEAR(found.uncertainty, 0.05, 1e-9);
}

TEST(Clocks, ThatAreApartAreAWarningUnlessTheyMayBeRight) {
  Report report(topology_of(3));
  judge_clocks({{2, 7.47, 0.05}, {4, -0.6, 0.2}}, report);
  EXPECT_EQ(report.count(Mark::warning), 1);
  const std::string lines = report.next_lines();
  EXPECT_THAT(lines, HasSubstr("warning  clocks (node2): its clock is 7.5 s ahead of node1's (+- "
                               "50.0 ms); set the clocks"));
}

TEST(Clocks, AreComparedOnSomeOfManyHosts) {
  const auto line_of = [](int hosts) {
    Report report(topology_of(hosts));
    judge_clocks({{2, 0.001, 0.0001}, {4, -0.002, 0.0001}}, report);
    return report.next_lines();
  };
  EXPECT_EQ(line_of(3), "ok       clocks: at most 2.0 ms from node1's (+- 100 us)\n");
  EXPECT_EQ(
      line_of(9),
      "ok       clocks: at most 2.0 ms from node1's (+- 100 us); 3 of 9 hosts were compared\n");
}

// The first 32, on all hosts.
TEST(HostNames, AreComparedOnSomeOfManyHosts) {
  const auto line_of = [](int hosts) {
    Report report(topology_of(hosts));
    nlohmann::json names;
    for (int i = 1; i <= std::min(hosts, 32); ++i)
      names["node" + std::to_string(i)] = {{"addresses", {"10.0.0." + std::to_string(i)}}};
    std::vector<Seen> seen;
    for (int i = 0; i < hosts; ++i)
      seen.push_back({2 * i, {{"machine", std::to_string(i)}, {"names", names}}});
    host_name_check.judge(seen, {}, report);
    return report.next_lines();
  };
  EXPECT_EQ(line_of(2), "ok       host names: node1, node2 know each other's names\n");
  EXPECT_THAT(
      line_of(33),
      HasSubstr("ok       host names: 32 of 33 hosts were compared: all know node1, node10"));
}

TEST(Links, ThatAreFarSlowerThanTheMedianAreWarnings) {
  Report report(topology_of(4));
  const auto link = [](int first, int second, double latency, double rate) {
    return PairLink{first, second, latency, rate};
  };
  judge_links({link(0, 2, 2e-5, 1.1e8), link(0, 4, 3e-5, 1.0e8), link(0, 6, 2e-3, 1.1e8),
               link(2, 4, 2e-5, 3.0e7), link(2, 6, 2e-5, 0.9e8), link(4, 6, 2e-5, 0.9e8)},
              report);
  EXPECT_EQ(report.count(Mark::warning), 2);
  const std::string lines = report.next_lines();
  EXPECT_THAT(lines, HasSubstr("between node1 and node4: 2.0 ms"));
  EXPECT_THAT(lines, HasSubstr("between node2 and node3: 20 us, 28.6 MiB/s"));
}

TEST(Links, AreMeasuredBetweenSomeOfManyHosts) {
  const auto line_of = [](int hosts) {
    Report report(topology_of(hosts));
    judge_links({{0, 2, 1e-5, 1e9}, {2, 4, 1e-5, 1e9}, {0, 4, 1e-5, 1e9}}, report);
    return report.next_lines();
  };
  EXPECT_THAT(line_of(3), HasSubstr("links: 3 pairs of hosts: median"));
  EXPECT_THAT(line_of(4), HasSubstr("links: 3 of 6 pairs of hosts: median"));
}

TEST(Links, OfTwoHostsAreComparedWithWhatTrainingNeeds) {
  Report slow(topology_of(2)), fast(topology_of(2));
  judge_links({{0, 2, 1e-4, 1e6}}, slow);
  judge_links({{0, 2, 1e-4, 1e8}}, fast);
  EXPECT_EQ(slow.count(Mark::warning), 1);
  EXPECT_EQ(fast.count(Mark::warning), 0);
}

TEST(DoctorsReport, HasOneLineForRanksWithTheSameFinding) {
  Report report(topology_of(2));
  for (const int rank : {0, 1, 2, 3}) report.ok("limits", {rank}, "1024 open files");
  report.warn("data", report.host_of(2), "no files", "copy\nthem");
  report.fail("binding", {0, 2}, "one core", "unbind");
  EXPECT_EQ(report.next_lines(),
            "ok       limits: 1024 open files\n"
            "warning  data (node2): no files; copy?them\n"
            "error    binding (rank 0 on node1, rank 2 on node2): one core; unbind\n");
  EXPECT_EQ(report.next_lines(), "");
  EXPECT_EQ(report.summary(), "1 error, 1 warning");
  EXPECT_EQ(report.findings().size(), 3U);
  EXPECT_EQ(report.findings()[1].at("ranks"), (std::vector<int>{2, 3}));
}

TEST(Bounded, WorksBeginAtOnce) {
  const auto meeting = std::make_shared<std::latch>(3);
  std::map<std::string, Work> works = {
      {"throws", []() -> nlohmann::json { throw Error(ErrorKind::io, "no"); }}};
  for (const char* const name : {"a", "b", "c"})
    works[name] = [meeting] {
      meeting->arrive_and_wait();
      return nlohmann::json("met");
    };
  EXPECT_EQ(
      bounded(60, works),
      (nlohmann::json{{"a", "met"}, {"b", "met"}, {"c", "met"}, {"throws", {{"failed", "no"}}}}));
}

TEST(Bounded, WorkThatTakesTooLongOrThrowsHasFailed) {
  EXPECT_EQ(bounded(60, [] { return nlohmann::json(7); }), 7);
  EXPECT_EQ(failure_of(bounded(60, []() -> nlohmann::json { throw std::runtime_error("no"); })),
            "no");
  const auto begin = std::chrono::steady_clock::now();
  const auto late = bounded(0.1, [] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return nlohmann::json();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_THAT(failure_of(late), HasSubstr("no answer within"));
}

TEST(NvidiaLibraries, TellTheirVersionsOrWhatIsMissing) {
  const auto found = find_nvidia_libraries();
  ASSERT_EQ(found.size(), 4U);
  for (const NvidiaLibrary& each : found)
    EXPECT_NE(each.version.empty(), each.problem.empty()) << each.name;
}

}  // namespace
}  // namespace tasuki::doctor

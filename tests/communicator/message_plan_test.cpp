// The plans of all algorithms, without MPI: what each rank sends is what its peer expects, no rank
// waits forever, and every element is the sum over all ranks in the end, added up everywhere alike.
#include "tasuki/communicator/algorithms/message_plan.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tasuki/communicator/algorithms/cost.hpp"
#include "tasuki/communicator/algorithms/planned_allreduce.hpp"
#include "tasuki/communicator/algorithms/plans.hpp"
#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t chunk_bytes = 256;

std::vector<MessagePlan> plans_of(AllreduceAlgorithm algorithm, std::int64_t count, int ranks) {
  std::vector<MessagePlan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(plan_allreduce(algorithm, {count, sizeof(float), chunk_bytes}, rank, ranks));
  return plans;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Carries out the plans of all ranks at once. An element's value is the text of how it was summed,
// so that ranks which add in another order differ. As with long messages, a send is complete when
// its receive was started; `window` messages of a rank are under way in each direction at most.
class Simulation {
 public:
  Simulation(const std::vector<MessagePlan>& plans, std::int64_t count, std::int64_t window)
      : plans_(plans), window_(window), ranks_(plans.size()) {
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      ranks_[rank].values.assign(at(count), std::to_string(rank));
      ranks_[rank].is_sent.assign(plans[rank].sends.size(), false);
      ranks_[rank].arrived.resize(plans[rank].receives.size());
    }
  }

  // False: ranks wait for each other forever.
  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved |= start(rank);
        moved |= transfer(rank);
        moved |= complete(rank);
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].sent < std::ssize(plans_[rank].sends) ||
          ranks_[rank].received < std::ssize(plans_[rank].receives))
        return false;
    return true;
  }
  const std::vector<std::string>& values(std::size_t rank) const { return ranks_[rank].values; }

 private:
  struct Rank {
    std::vector<std::string> values;
    std::int64_t sends_started = 0, sent = 0, receives_started = 0, received = 0;
    std::vector<bool> is_sent;
    std::vector<std::vector<std::string>> arrived;
    std::map<int, std::vector<std::string>> held;
  };

  bool start(std::size_t number) {
    Rank& rank = ranks_[number];
    const MessagePlan& plan = plans_[number];
    const std::int64_t before = rank.sends_started + rank.receives_started;
    while (rank.sends_started < std::ssize(plan.sends) &&
           rank.sends_started < rank.sent + window_ &&
           plan.sends[at(rank.sends_started)].after <= rank.received)
      ++rank.sends_started;
    while (rank.receives_started < std::ssize(plan.receives) &&
           rank.receives_started < rank.received + window_ &&
           (plan.receives[at(rank.receives_started)].arrival != Arrival::replacing ||
            plan.receives[at(rank.receives_started)].after <= rank.sent))
      ++rank.receives_started;
    return rank.sends_started + rank.receives_started > before;
  }

  // What was sent to this rank and is expected by it arrives.
  bool transfer(std::size_t number) {
    Rank& rank = ranks_[number];
    bool moved = false;
    for (std::int64_t i = rank.received; i < rank.receives_started; ++i) {
      if (!rank.arrived[at(i)].empty()) continue;
      const Message& receive = plans_[number].receives[at(i)];
      const std::int64_t send = next_send(receive.peer, static_cast<int>(number));
      Rank& peer = ranks_[at(receive.peer)];
      if (send >= peer.sends_started) continue;
      const Range range = plans_[at(receive.peer)].sends[at(send)].range;
      EXPECT_EQ(range, receive.range);
      rank.arrived[at(i)] = {peer.values.begin() + range.begin, peer.values.begin() + range.end};
      peer.is_sent[at(send)] = true;
      while (peer.sent < std::ssize(peer.is_sent) && peer.is_sent[at(peer.sent)]) ++peer.sent;
      moved = true;
    }
    return moved;
  }

  // The first message from one rank to another that has not arrived.
  std::int64_t next_send(int from, int to) const {
    const std::vector<Message>& sends = plans_[at(from)].sends;
    std::int64_t i = 0;
    while (i < std::ssize(sends) && (sends[at(i)].peer != to || ranks_[at(from)].is_sent[at(i)]))
      ++i;
    return i;
  }

  bool complete(std::size_t number) {
    Rank& rank = ranks_[number];
    if (rank.received == rank.receives_started || rank.arrived[at(rank.received)].empty())
      return false;
    const Message& receive = plans_[number].receives[at(rank.received)];
    if (receive.after > rank.sent) return false;
    put(static_cast<int>(number), receive, rank.arrived[at(rank.received)]);
    ++rank.received;
    return true;
  }

  void put(int number, const Message& message, const std::vector<std::string>& arrived) {
    Rank& rank = ranks_[at(number)];
    if (message.arrival == Arrival::held) {
      rank.held[message.peer] = arrived;
      if (!message.is_final) return;
    }
    for (auto i = message.range.begin; i < message.range.end; ++i) {
      std::string& own = rank.values[at(i)];
      const std::string& other = arrived[at(i - message.range.begin)];
      if (message.arrival == Arrival::replacing) {
        own = other;
      } else if (message.arrival == Arrival::added) {
        own = "(" + std::min(own, other) + "+" + std::max(own, other) + ")";  // a + b = b + a
      } else {
        std::map<int, std::string> terms{{number, own}};
        for (const auto& [peer, values] : rank.held)
          terms[peer] = values[at(i - message.range.begin)];
        own.clear();
        for (const auto& [peer, text] : terms) own += own.empty() ? text : "+" + text;
      }
    }
    rank.held.clear();
  }

  const std::vector<MessagePlan>& plans_;
  std::int64_t window_;
  std::vector<Rank> ranks_;
};

class Plans : public ::testing::TestWithParam<std::tuple<AllreduceAlgorithm, int, std::int64_t>> {
 protected:
  AllreduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::int64_t count() const { return std::get<2>(GetParam()); }
  std::vector<MessagePlan> plans() const { return plans_of(algorithm(), count(), ranks()); }
};

std::vector<int> covered(const std::vector<Range>& ranges, std::int64_t count) {
  std::vector<int> times(at(count), 0);
  for (const Range range : ranges)
    for (auto i = range.begin; i < range.end; ++i) ++times[at(i)];
  return times;
}

void expect_equal_lists(const std::vector<MessagePlan>& all) {
  const auto ranks = static_cast<int>(all.size());
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      std::vector<Range> sent, received;
      for (const Message& message : all[at(from)].sends)
        if (message.peer == to) sent.push_back(message.range);
      for (const Message& message : all[at(to)].receives)
        if (message.peer == from) received.push_back(message.range);
      EXPECT_EQ(sent, received) << "from " << from << " to " << to;
    }
  }
}

void expect_sum_of_all(const std::string& sum, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string term = std::to_string(rank);
    EXPECT_EQ(std::ranges::count(sum, term[0]), 1) << "of " << rank << " in " << sum;
  }
}

TEST_P(Plans, PeersListTheSameMessagesInTheSameOrder) {
  expect_equal_lists(plans());
}

TEST_P(Plans, EveryElementIsNeededOnceAndCompleteOnce) {
  const std::vector<int> once(at(count()), 1);
  for (const MessagePlan& plan : plans()) {
    EXPECT_EQ(covered(plan.need, count()), once);
    EXPECT_EQ(covered(plan.completion, count()), once);
  }
}

TEST_P(Plans, MessagesFollowThePiecesThatTheyUse) {
  for (const MessagePlan& plan : plans()) {
    for (const auto* list : {&plan.sends, &plan.receives}) {
      for (const Message& message : *list) {
        EXPECT_LE(message.range.size() * std::int64_t{sizeof(float)}, chunk_bytes);
        if (message.arrival == Arrival::held && !message.is_final) continue;
        const std::vector<Range> before(plan.need.begin(), plan.need.begin() + message.pieces);
        const std::vector<int> ready = covered(before, count());
        for (auto i = message.range.begin; i < message.range.end; ++i) ASSERT_EQ(ready[at(i)], 1);
      }
    }
  }
}

TEST_P(Plans, AllRanksGetTheSameSumOfAll) {
  const std::vector<MessagePlan> all = plans();
  for (const std::int64_t window : {1, 2, 8}) {
    Simulation simulation(all, count(), window);
    ASSERT_TRUE(simulation.run()) << "window " << window;
    for (std::int64_t i = 0; i < count(); ++i) {
      const std::string& sum = simulation.values(0)[at(i)];
      for (int rank = 0; rank < ranks(); ++rank)
        EXPECT_EQ(simulation.values(at(rank))[at(i)], sum) << "rank " << rank;
      expect_sum_of_all(sum, ranks());
    }
  }
}

// What cost_of() says is what the plans do, up to a cache line of every piece.
TEST_P(Plans, BytesAreThoseOfTheCost) {
  std::int64_t most = 0;
  for (const MessagePlan& plan : plans()) {
    std::int64_t received = 0;
    for (const Message& message : plan.receives) received += message.range.size();
    most = std::max({most, plan.elements_sent(), received});
  }
  const double bytes = static_cast<double>(count()) * sizeof(float);
  const double expected = cost_of(algorithm(), bytes, ranks()).bytes;
  EXPECT_NEAR(static_cast<double>(most) * sizeof(float), expected, 2 * 64 * ranks());
}

std::string name_of_plan(const ::testing::TestParamInfo<Plans::ParamType>& info) {
  std::string name = name_of(std::get<0>(info.param));
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}_{}_{}", name, std::get<1>(info.param), std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Plans,
                         ::testing::Combine(::testing::Values(AllreduceAlgorithm::ring,
                                                              AllreduceAlgorithm::halving_doubling,
                                                              AllreduceAlgorithm::tree,
                                                              AllreduceAlgorithm::direct),
                                            ::testing::Values(2, 3, 4, 5, 6, 7, 8),
                                            ::testing::Values(0, 1, 15, 16, 17, 1000, 4096)),
                         name_of_plan);

// How a vector is divided, with elements that all ranks get behind the parts.
enum class Parts { even, uneven, of_one_rank, of_no_rank, apart };

class ScatterPlans
    : public ::testing::TestWithParam<std::tuple<AllreduceAlgorithm, int, Parts, std::int64_t>> {
 protected:
  AllreduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::int64_t common() const { return std::get<3>(GetParam()); }

  Division division() const {
    Division made(0);
    made.parts.resize(at(ranks()));
    const auto give = [&](int rank, std::int64_t count) {
      made.append_to_part(rank, {made.common.end, made.common.end + count});
      made.common.end += count;
    };
    const Parts kind = std::get<2>(GetParam());
    for (int turn = 0; turn < (kind == Parts::apart ? 3 : 1); ++turn)
      for (int rank = 0; rank < ranks(); ++rank) switch (kind) {
          case Parts::even:
            give(rank, 400);
            break;
          case Parts::uneven:
            give(rank, (rank + ranks() - 1) % ranks() * 37);
            break;
          case Parts::of_one_rank:
            give(rank, rank + 1 == ranks() ? 1000 : 0);
            break;
          case Parts::of_no_rank:
            break;
          case Parts::apart:
            give(rank, 33 + turn);
            break;
        }
    made.common.begin = made.common.end;
    made.common.end += common();
    return made;
  }
  std::vector<MessagePlan> plans(const Division& division) const {
    std::vector<MessagePlan> plans;
    for (int rank = 0; rank < ranks(); ++rank) {
      PlannedAllreduce scatter(rank, ranks(),
                               {.algorithm = algorithm(), .sizes = {.message_chunk = chunk_bytes}});
      plans.push_back(scatter.plan_for(division, DType::float32));
    }
    return plans;
  }
  static std::int64_t size_of_part(const Division& division, int rank) {
    std::int64_t elements = 0;
    for (const Range range : division.parts[at(rank)]) elements += range.size();
    return elements;
  }
};

TEST_P(ScatterPlans, PeersListTheSameMessagesInTheSameOrder) {
  expect_equal_lists(plans(division()));
}

TEST_P(ScatterPlans, AllIsNeededOnceAndEachRankCompletesItsPart) {
  const Division given = division();
  const std::int64_t count = given.common.end;
  const std::vector<MessagePlan> all = plans(given);
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(covered(all[at(rank)].need, count), std::vector<int>(at(count), 1));
    std::vector<Range> gets = given.parts[at(rank)];
    gets.push_back(given.common);
    EXPECT_EQ(covered(all[at(rank)].completion, count), covered(gets, count));
  }
}

TEST_P(ScatterPlans, EachRankGetsTheSumsOfItsPartAndTheCommonOnes) {
  const Division given = division();
  const std::vector<MessagePlan> all = plans(given);
  for (const std::int64_t window : {1, 2, 8}) {
    Simulation simulation(all, given.common.end, window);
    ASSERT_TRUE(simulation.run()) << "window " << window;
    for (int rank = 0; rank < ranks(); ++rank) {
      for (const Range range : given.parts[at(rank)])
        for (auto i = range.begin; i < range.end; ++i)
          expect_sum_of_all(simulation.values(at(rank))[at(i)], ranks());
      for (auto i = given.common.begin; i < given.common.end; ++i)
        EXPECT_EQ(simulation.values(at(rank))[at(i)], simulation.values(0)[at(i)]);
    }
    for (auto i = given.common.begin; i < given.common.end; ++i)
      expect_sum_of_all(simulation.values(0)[at(i)], ranks());
  }
}

// With equal parts that is (p - 1) / p of the vector.
TEST_P(ScatterPlans, ARankSendsAllButItsOwnPart) {
  const Division given = division();
  const auto elements_of_parts = [&](const std::vector<Message>& messages) {
    std::int64_t elements = 0;
    for (const Message& message : messages)
      if (message.range.begin < given.common.begin) elements += message.range.size();
    return elements;
  };
  std::vector<double> bytes;
  std::int64_t most = 0;
  const std::vector<MessagePlan> all = plans(given);
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t own = size_of_part(given, rank);
    const std::int64_t sent = elements_of_parts(all[at(rank)].sends);
    EXPECT_EQ(sent, given.common.begin - own) << "rank " << rank;
    most = std::max({most, sent, elements_of_parts(all[at(rank)].receives)});
    bytes.push_back(static_cast<double>(own) * sizeof(float));
  }
  EXPECT_EQ(static_cast<double>(most) * sizeof(float), cost_of_scatter(algorithm(), bytes).bytes);
}

std::string name_of_scatter(const ::testing::TestParamInfo<ScatterPlans::ParamType>& info) {
  constexpr const char* parts[] = {"even", "uneven", "of_one_rank", "of_no_rank", "apart"};
  std::string name = name_of(std::get<0>(info.param));
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}_{}_{}_{}", name, std::get<1>(info.param),
                     parts[static_cast<int>(std::get<2>(info.param))], std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, ScatterPlans,
    ::testing::Combine(::testing::Values(AllreduceAlgorithm::ring,
                                         AllreduceAlgorithm::halving_doubling,
                                         AllreduceAlgorithm::tree, AllreduceAlgorithm::direct),
                       ::testing::Values(2, 3, 4, 5, 7, 8),
                       ::testing::Values(Parts::even, Parts::uneven, Parts::of_one_rank,
                                         Parts::of_no_rank, Parts::apart),
                       ::testing::Values(0, 5, 300)),
    name_of_scatter);

TEST(ScatterPlan, MpisOwnAlgorithmIsForAllreducesAlone) {
  Division halves(0);
  halves.parts = {{{0, 1000}}, {{1000, 2000}}};
  PlannedAllreduce planned(0, 2, {.algorithm = AllreduceAlgorithm::mpi});
  EXPECT_EQ(planned.plan_for(halves, DType::float32).elements_sent(), 1000);
  EXPECT_EQ(planned.plan_for(2000, DType::float32).elements_sent(), 0);
}

TEST(PlanBuilder, RefusesAMessageOfWhichAPartIsNew) {
  PlanBuilder plan;
  plan.send(1, {0, 10});
  EXPECT_THROW(plan.send(1, {5, 15}), Error);
}

TEST(Cost, StepsOfEachAlgorithm) {
  EXPECT_EQ(cost_of(AllreduceAlgorithm::ring, 1, 8).steps, 14);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::halving_doubling, 1, 8).steps, 6);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::halving_doubling, 1, 7).steps, 7);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::tree, 1, 5).steps, 6);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::direct, 1, 8).steps, 1);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::ring, 1, 1).steps, 0);
}

TEST(Cost, StepsOfEachReduceScatter) {
  const std::vector<double> bytes(7, 1e3);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::ring, bytes).steps, 6);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::halving_doubling, bytes).steps, 3);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::direct, bytes).steps, 1);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::ring, std::vector<double>{1e3}).bytes, 0);
}

// All send to one rank: in a ring it receives a part once.
TEST(Cost, PartsOfOneRankAreForTheRing) {
  const Link link{.latency = 1e-4, .bytes_per_second = 1e8};
  std::vector<double> bytes(8, 64e6);
  EXPECT_EQ(fastest_scatter(bytes, link), AllreduceAlgorithm::direct);
  bytes = {0, 64e6, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(fastest_scatter(bytes, link), AllreduceAlgorithm::ring);
}

// Two nodes of four ranks. Of a ring, one rank of each sends to the other node; else all do.
TEST(Cost, RanksOfANodeShareItsLink) {
  const Link between{.latency = 1e-4, .bytes_per_second = 1e8};
  const Link inside{.latency = 1e-6, .bytes_per_second = 1e10};
  const auto of = [&](const std::vector<int>& nodes) {
    std::vector<std::string> hosts;
    for (const int node : nodes) hosts.push_back(fmt::format("host{}", node));
    return network_of(make_topology(0, nodes, hosts), between, inside);
  };
  const Network blocks = of({0, 0, 0, 0, 1, 1, 1, 1}), cyclic = of({0, 1, 0, 1, 0, 1, 0, 1});
  const auto seconds = [](AllreduceAlgorithm algorithm, const Network& network) {
    return predicted_seconds(algorithm, 64e6, 8, network);
  };
  constexpr auto ring = AllreduceAlgorithm::ring, halving = AllreduceAlgorithm::halving_doubling;
  const double bytes = 2 * 7 / 8.0 * 64e6;
  EXPECT_NEAR(seconds(ring, blocks), 14e-4 + bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(halving, blocks), 6e-4 + 4 * bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(ring, cyclic), 14e-4 + 4 * bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(ring, of({0, 0, 0, 0, 0, 0, 0, 0})), 14e-6 + bytes / 1e10, 1e-9);
  EXPECT_NEAR(seconds(halving, of({0, 1, 2, 3, 4, 5, 6, 7})), 6e-4 + bytes / 1e8, 1e-9);
  EXPECT_EQ(fastest_algorithm(64e6, 8, blocks), ring);
  EXPECT_EQ(fastest_algorithm(64e6, 8, cyclic), halving);
}

// Memory that is slower than the network decides, too.
TEST(Cost, TheSlowerLevelCounts) {
  const Link between{.latency = 1e-5, .bytes_per_second = 1e9};
  const Link inside{.latency = 1e-3, .bytes_per_second = 1e7};
  const Network network =
      network_of(make_topology(0, {0, 0, 1, 1}, {"a", "a", "b", "b"}), between, inside);
  EXPECT_NEAR(predicted_seconds(AllreduceAlgorithm::ring, 4e6, 4, network), 6e-3 + 6e6 / 1e7, 1e-9);
}

TEST(Cost, LatencyDecidesForFewBytesAndTheLinkForMany) {
  const Link link{.latency = 1e-4, .bytes_per_second = 1e8};
  EXPECT_EQ(fastest_algorithm(8, 16, link), AllreduceAlgorithm::direct);
  EXPECT_EQ(fastest_algorithm(64e3, 16, link), AllreduceAlgorithm::halving_doubling);
  EXPECT_EQ(fastest_algorithm(64e6, 15, link), AllreduceAlgorithm::ring);
}

}  // namespace
}  // namespace tasuki

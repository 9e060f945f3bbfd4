// What tests of message plans share: all ranks' plans are carried out at once, without MPI.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "communicator/algorithms/message_plan.hpp"

namespace tasuki::testing {

inline std::size_t at(std::int64_t i) {
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

inline std::vector<int> covered(const std::vector<Range>& ranges, std::int64_t count) {
  std::vector<int> times(at(count), 0);
  for (const Range range : ranges)
    for (auto i = range.begin; i < range.end; ++i) ++times[at(i)];
  return times;
}

inline void expect_equal_lists(const std::vector<MessagePlan>& all) {
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

inline void expect_sum_of_all(const std::string& sum, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string term = std::to_string(rank);
    EXPECT_EQ(std::ranges::count(sum, term[0]), 1) << "of " << rank << " in " << sum;
  }
}

}  // namespace tasuki::testing

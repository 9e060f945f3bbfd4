// MessagePlan: the messages that one rank sends and receives in an allreduce or a reduce-scatter.
//
// A plan is a pure function of the vector's length and division, the rank and the number of ranks
// (allreduce_plans.hpp). So plans can be tested without MPI, and their steps and bytes counted
// without running them. PlanRun (plan_run.hpp) carries out a plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/range.hpp"

namespace tasuki {

// What a rank does with values that it receives.
enum class Arrival {
  added,      // combines them with its own values
  replacing,  // replaces its own values by them
  held,  // keeps them until all ranks' values are there, and combines all in the order of ranks,
         // or of MessagePlan::tree
};

// The messages between two ranks are in the same order in the lists of both.
struct Message {
  int peer = 0;
  Range range;  // elements of the vector
  // For MessagePlan::tree: the number of the array of this rank that a send reads, and the place of
  // held values in the order of the sum.
  std::size_t array = 0;
  std::size_t place = 0;
  // The number of pieces of MessagePlan::need, from the first, that must be prepared before the
  // message reads or changes this rank's values.
  std::int64_t pieces = 0;
  // A send starts when the first `after` receives are complete, because it passes on their values.
  // A receive changes this rank's values when the first `after` sends are complete, because they
  // read these values.
  std::int64_t after = 0;
  // For a receive:
  Arrival arrival = Arrival::added;
  bool is_final = false;  // afterwards the range holds the result of all ranks
  bool is_common = true;  // if it is final: other ranks get the result with the same bits
};

// Sums of shards (shard_tree.hpp): a rank has several arrays, and held values are added in the
// order of a tree. Results are in a rank's first array.
struct TreeOfMessages {
  std::int64_t stride = 0;          // elements from one array of a rank to its next one
  std::vector<std::size_t> places;  // of this rank's arrays in the order of the sum
  std::vector<int> merges;          // TreeOrder::merges, in this order
};

struct MessagePlan {
  // The messages of each list start and complete in its order.
  std::vector<Message> sends{}, receives{};
  // The elements that messages read or change on this rank, as pieces in the order of first use.
  std::vector<Range> need{};
  // The elements whose results this rank gets, as pieces in the order in which they are complete.
  std::vector<Range> completion{};
  std::optional<TreeOfMessages> tree{};  // empty: a rank has one array

  std::int64_t elements_sent() const;
  // Appends the messages of a plan for other elements.
  void append(const MessagePlan& next);
};

// Builds the plan of one rank. Add messages in an order in which the rank could carry them out one
// after another. Messages of empty ranges are left out, here and at the peer.
class PlanBuilder {
 public:
  void send(int peer, Range range, std::size_t array = 0);
  void receive(int peer, Range range, Arrival arrival, std::size_t place = 0);
  // For an allreduce: all ranks get all results.
  MessagePlan build();
  // For a reduce-scatter: this rank alone gets the results of `own`.
  MessagePlan build_for(const std::vector<Range>& own);

 private:
  // What has happened to a range of elements.
  struct History {
    std::int64_t end = 0;
    std::int64_t pieces = 0;                       // of `need`, up to its own
    std::int64_t last_send = 0, last_receive = 0;  // counted from 1; 0: none
  };

  // The histories of the parts of `range`. Either all of it was used before, or nothing.
  std::vector<History*> parts_of(Range range);
  void cut_at(std::int64_t element);
  template <class Gets>
  MessagePlan build_where(const Gets& gets, bool is_common);

  MessagePlan plan_;
  std::map<std::int64_t, History> history_;  // by the first element
};

}  // namespace tasuki

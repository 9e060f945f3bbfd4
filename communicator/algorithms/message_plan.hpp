// MessagePlan: the messages that one rank sends and receives in an allreduce or a reduce-scatter.
//
// A plan is a pure function of the vector's length and division, the rank and the number of ranks
// (plans.hpp), so plans are tested without MPI, and their steps and bytes are counted
// without running them. PlanRun (plan_run.hpp) carries one out.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tasuki/core/range.hpp"

namespace tasuki {

// What becomes of received values.
enum class Arrival {
  added,      // combined with this rank's
  replacing,  // this rank's
  held,       // until those of all ranks are there, which are then combined in the order of ranks
};

// The messages between two ranks stand in the same order in the lists of both.
struct Message {
  int peer = 0;
  Range range;  // elements of the vector
  // The number of pieces of MessagePlan::need that the message reads or changes, and those before
  // them.
  std::int64_t pieces = 0;
  // A send waits until so many receives are complete, which bring the values that it passes on.
  // What is received changes this rank's values only when so many sends are complete, which read
  // them.
  std::int64_t after = 0;
  // Of a receive:
  Arrival arrival = Arrival::added;
  bool is_final = false;  // the range holds the result of all ranks afterwards
  bool is_common = true;  // of a final one: other ranks have the result, too, in the same bits
};

struct MessagePlan {
  // Each list is started and completed in its order.
  std::vector<Message> sends{}, receives{};
  // The elements in pieces: those that messages use, in the order in which they first read or
  // change this rank's values, and those whose results this rank gets, in the order in which they
  // are complete.
  std::vector<Range> need{}, completion{};

  std::int64_t elements_sent() const;
  // Adds the messages of a plan for other elements, which follow.
  void append(const MessagePlan& next);
};

// Makes a plan from one rank's messages, which are told in an order in which this rank could carry
// them out one after the other. Empty ranges are left out, as they are at the peer.
class PlanBuilder {
 public:
  void send(int peer, Range range);
  void receive(int peer, Range range, Arrival arrival);
  // All ranks get all results.
  MessagePlan build();
  // This rank gets those of `own`, and no other rank does.
  MessagePlan build_for(const std::vector<Range>& own);

 private:
  // What has happened to a range of elements.
  struct History {
    std::int64_t end = 0;
    std::int64_t pieces = 0;                       // of `need`, up to its own
    std::int64_t last_send = 0, last_receive = 0;  // counted from 1; 0: none
  };

  // What has happened to the parts of `range`, which was never used or used as a whole.
  std::vector<History*> parts_of(Range range);
  void cut_at(std::int64_t element);
  template <class Gets>
  MessagePlan build_where(const Gets& gets, bool is_common);

  MessagePlan plan_;
  std::map<std::int64_t, History> history_;  // by the first element
};

}  // namespace tasuki

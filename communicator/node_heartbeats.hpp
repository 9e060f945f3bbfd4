// What the ranks of a node are doing, told to the other nodes in datagrams (UDP): beside MPI, so
// that it costs a step nothing and works however MPI's own messages hang.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tasuki/core/activity.hpp"

namespace tasuki {

struct RankActivity {
  int rank = 0;
  Activity activity;
};

// One of the ranks with a board (ActivityBoard) sends for all of them, and the first of them
// receives for all. Datagrams may get lost, and where a firewall drops them all, nodes just know
// nothing of each other. Those of strangers are recognised by the job's number, which is drawn at
// random, and left aside.
class NodeHeartbeats {
 public:
  // Collective over the job. `ranks` share a board. No socket is opened where all do.
  explicit NodeHeartbeats(const std::vector<int>& ranks);
  ~NodeHeartbeats();
  NodeHeartbeats(const NodeHeartbeats&) = delete;
  NodeHeartbeats& operator=(const NodeHeartbeats&) = delete;

  // Host names of all ranks.
  const std::vector<std::string>& hosts() const { return hosts_; }

  // To all other nodes; at once, whether or not they listen.
  void send(std::span<const RankActivity> ranks) const;
  // Hands over what has come since; at once.
  void receive(const std::function<void(const RankActivity&)>& take) const;

 private:
  // Where a rank can be reached: it has a port, on every address of its machine.
  struct Contact {
    int first_of_board = 0;
    std::uint16_t port = 0;                    // 0: nowhere
    std::array<std::uint32_t, 8> addresses{};  // IPv4, 0: none
    std::array<char, 64> host{};
  };
  struct Datagram;
  Contact own_contact(int first_of_board, bool has_other_nodes);

  int socket_ = -1;
  std::uint64_t job_ = 0;
  std::vector<int> own_ranks_;
  std::vector<std::string> hosts_;
  std::vector<Contact> peers_;  // first ranks of the other boards
};

}  // namespace tasuki

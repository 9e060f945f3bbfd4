// What the ranks of a node are doing, told to the other nodes in datagrams (UDP): beside MPI, so
// that it costs a step nothing and works however MPI's own messages hang.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tasuki/job/heartbeat_datagram.hpp"
#include "tasuki/job/heartbeat_paths.hpp"

namespace tasuki {

// One of the ranks with a board (ActivityBoard) sends for all of them, and the first of them
// receives for all. Datagrams may get lost, and where a firewall drops them all, nodes just know
// nothing of each other.
//
// Sockets are bound to the addresses by which the nodes reach each other (choose_paths), and to no
// others. A datagram is sent over each of these ways. It counts when it comes from such an address
// of a node of the job, ends in a hash that takes the job's key to make, and has a higher number
// than those of its sender before, which only the first to arrive has. All else is left aside, and
// what was not made with the key is counted. The key is drawn at random, given to the ranks by MPI
// and never in a datagram.
class NodeHeartbeats {
 public:
  // Collective over the job. `ranks` share a board. No socket is opened where all do.
  explicit NodeHeartbeats(const std::vector<int>& ranks);
  ~NodeHeartbeats();
  NodeHeartbeats(const NodeHeartbeats&) = delete;
  NodeHeartbeats& operator=(const NodeHeartbeats&) = delete;

  // Host names of all ranks.
  const std::vector<std::string>& hosts() const { return hosts_; }

  // Of the ranks that share a board with this one.
  int first_of_board(int rank) const { return boards_[static_cast<std::size_t>(rank)]; }

  // To all other nodes; at once, whether or not they listen.
  void send(std::span<const RankActivity> ranks);
  // Waits until a datagram has come, `wake` can be read, or so many seconds have passed. Whoever
  // receives only now and then has a flood of junk push out what counts.
  void wait(double seconds, int wake) const;
  // Hands over what has come since; at once.
  void receive(const std::function<void(const RankActivity&)>& take);
  // Whether anything that counts has come from another node, that of this rank; true of this
  // node's.
  bool is_heard(int rank);
  // Datagrams of strangers.
  std::int64_t refused() const { return refused_; }

 private:
  struct Contact;
  struct Socket {
    std::uint32_t address = 0;
    std::uint16_t port = 0;  // 0: it could not be opened
    int descriptor = -1;
  };
  struct Way {
    HeartbeatPath path;
    std::uint16_t port = 0;  // 0: it cannot be reached
  };
  struct Peer {
    int first_of_board = 0;
    std::vector<Way> ways;
    bool is_heard = false;
    bool is_at(std::uint32_t address) const;
  };
  Socket& socket_of(std::uint32_t address);
  void exchange_ports(const std::vector<Contact>& contacts, const Contact& own);
  Peer* peer_of(int rank);
  // Whether its sender has this address and tells of ranks of its own board.
  bool is_proper(const Heartbeat& heartbeat, std::uint32_t from);

  SipKey key_{};
  int rank_ = 0;
  std::vector<std::string> hosts_;
  std::vector<int> boards_;  // of each rank the first one that it shares a board with
  std::vector<Peer> peers_;  // the other boards
  std::vector<Socket> sockets_;
  std::uint64_t sent_ = 0;
  std::vector<std::uint64_t> last_numbers_;  // by sender
  std::int64_t refused_ = 0;
};

}  // namespace tasuki

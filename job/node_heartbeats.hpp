// NodeHeartbeats: tells the other nodes in datagrams (UDP) what the ranks of this node are doing.
// job/stall.hpp judges what was heard. Independent of MPI, so that it costs a training step nothing
// and works while MPI's messages hang.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "job/heartbeat_datagram.hpp"
#include "job/heartbeat_paths.hpp"

namespace tasuki {

// One of the ranks that share a board (ActivityBoard) sends for all of them, and the first of them
// receives for all. Datagrams may get lost; if a firewall drops all of them, nodes know nothing
// about each other.
//
// Sockets are bound only to the addresses by which the nodes reach each other (choose_paths), and a
// datagram is sent along each of these paths. It is accepted if it comes from such an address of a
// node of the job, ends in a hash made with the job's key, and has a higher number than all before
// it from its sender, so that only the first copy counts. All other datagrams are ignored, and
// those not made with the key are counted. The key is drawn at random and distributed by MPI; no
// datagram contains it.
class NodeHeartbeats {
 public:
  // Collective over the ranks of the job. `ranks`: those that share a board with this one. Opens no
  // socket if all ranks do.
  NodeHeartbeats(const MpiComm& job, const std::vector<int>& ranks);
  ~NodeHeartbeats();
  NodeHeartbeats(const NodeHeartbeats&) = delete;
  NodeHeartbeats& operator=(const NodeHeartbeats&) = delete;

  // Host names of all ranks.
  const std::vector<std::string>& hosts() const { return hosts_; }

  // The first of the ranks that share a board with `rank`.
  int first_of_board(int rank) const { return boards_[static_cast<std::size_t>(rank)]; }

  // Sends to all other nodes. Does not wait, whether or not they receive. `asks`: they should send
  // theirs at once.
  void send(std::span<const RankActivity> ranks, bool asks = false);
  // Waits until a datagram has arrived, one of the file descriptors `wakes` is readable (-1: none),
  // or `seconds` have passed. To be called often: a flood of junk could otherwise fill the sockets'
  // buffers.
  void wait(double seconds, const std::array<int, 2>& wakes) const;
  // Passes what has arrived since to `take`, and returns whether a sender asks. Does not wait.
  bool receive(const std::function<void(const RankActivity&)>& take);
  // Whether an accepted datagram has come from the node of `rank`; true for this node.
  bool is_heard(int rank);
  // The number of datagrams that were not made with the key.
  std::int64_t refused() const { return refused_; }

 private:
  struct Contact;
  struct Socket {
    std::uint32_t address = 0;
    std::uint16_t port = 0;  // 0: could not be opened
    int descriptor = -1;
  };
  struct Way {
    HeartbeatPath path;
    std::uint16_t port = 0;  // 0: cannot be reached
  };
  struct Peer {
    int first_of_board = 0;
    std::vector<Way> ways;
    bool is_heard = false;
    bool is_at(std::uint32_t address) const;
  };
  Socket& socket_of(std::uint32_t address);
  void exchange_ports(const MpiComm& job, const std::vector<Contact>& contacts, const Contact& own);
  Peer* peer_of(int rank);
  // Whether the sender has this address and reports only ranks of its board.
  bool is_proper(const Heartbeat& heartbeat, std::uint32_t from);

  SipKey key_{};
  int rank_ = 0;
  std::vector<std::string> hosts_;
  std::vector<int> boards_;  // by rank: the first rank on its board
  std::vector<Peer> peers_;  // the other boards
  std::vector<Socket> sockets_;
  std::uint64_t sent_ = 0;
  std::vector<std::uint64_t> last_numbers_;  // by sender
  std::int64_t refused_ = 0;
};

}  // namespace tasuki

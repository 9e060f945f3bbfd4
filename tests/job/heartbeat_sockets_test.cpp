// Heartbeats between nodes: one socket for the first rank of each, at the address by which the
// others reach it; and what the others learn.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <vector>

#include "communicator/mpi/mpi.hpp"
#include "job/node_heartbeats.hpp"

namespace tasuki {
namespace {

// Addresses of this process's UDP sockets.
std::vector<std::uint32_t> datagram_sockets() {
  std::vector<std::uint32_t> found;
  for (int file = 0; file < 1024; ++file) {
    int type = 0;
    socklen_t length = sizeof type;
    sockaddr_in place{};
    socklen_t place_length = sizeof place;
    if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM &&
        getsockname(file, reinterpret_cast<sockaddr*>(&place), &place_length) == 0 &&
        place.sin_family == AF_INET)
      found.push_back(ntohl(place.sin_addr.s_addr));
  }
  return found;
}

// run_job's watchdog has them while this runs.
TEST(HeartbeatSockets, ListenOnOneAddressOfTheNodesFirstRank) {
  MPI_Comm node = MPI_COMM_NULL;
  int place = 0, neighbours = 0, size = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &place);
  MPI_Comm_size(node, &neighbours);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_free(&node);
  const auto sockets = datagram_sockets();
  if (neighbours == size || place != 0) {
    EXPECT_EQ(sockets.size(), 0u);
    return;
  }
  ASSERT_EQ(sockets.size(), 1u);
  constexpr std::uint32_t cluster = 0x0ae70700;  // 10.231.7.0/24 of tests/cluster/run.sh
  EXPECT_EQ(sockets.front() & ~0xffU, cluster);
}

// The first rank of each node sends; rank 0's asks.
TEST(NodeHeartbeats, SayWhetherTheSenderAsks) {
  const MpiComm job = MpiComm::duplicate(MPI_COMM_WORLD);
  const MpiComm node = MpiComm::split_by_memory(job.get());
  if (node.size() == job.size()) GTEST_SKIP() << "needs two nodes";
  const int rank = job.rank();
  std::vector<int> neighbours(static_cast<std::size_t>(node.size()));
  MPI_Allgather(&rank, 1, MPI_INT, neighbours.data(), 1, MPI_INT, node.get());
  NodeHeartbeats heartbeats(job, neighbours);
  if (rank == neighbours.front()) {
    const RankActivity own{.rank = rank};
    heartbeats.send({&own, 1}, rank == 0);
    std::optional<int> sender;
    bool asks = false;
    for (int waits = 0; !sender && waits < 100; ++waits) {
      heartbeats.wait(0.1, {-1, -1});
      asks = heartbeats.receive([&](const RankActivity& each) { sender = each.rank; });
    }
    ASSERT_TRUE(sender);
    EXPECT_EQ(asks, *sender == 0);
  }
  MPI_Barrier(job.get());
}

}  // namespace
}  // namespace tasuki

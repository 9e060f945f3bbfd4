// Heartbeats open no more than they need: on several nodes one socket for the first rank of each,
// at the address by which the others reach it.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

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

}  // namespace
}  // namespace tasuki

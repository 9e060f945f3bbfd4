#include "tasuki/communicator/node_heartbeats.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "tasuki/communicator/environment.hpp"
#include "tasuki/communicator/mpi.hpp"

namespace tasuki {
namespace {

// A datagram stays within an Ethernet frame.
constexpr std::size_t ranks_of_a_datagram = 16;

bool is_valid(const Activity& activity) {
  return activity.phase <= Phase::restoring && activity.waiting <= Waiting::mpi_finalize;
}

std::uint64_t random_number() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32) | source();
}

std::vector<std::uint32_t> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<std::uint32_t> addresses, loopback;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
        (each->ifa_flags & IFF_UP) == 0)
      continue;
    const auto address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr;
    ((each->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : addresses).push_back(address);
  }
  // Ranks of one machine that share no memory reach each other this way at least.
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

sockaddr_in address_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = address;
  place.sin_port = port;
  return place;
}

// A socket bound to any free port, or -1.
int open_socket(std::uint16_t& port) {
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  sockaddr_in place = address_of(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof place;
  auto* const general = reinterpret_cast<sockaddr*>(&place);
  if (bind(made, general, length) != 0 || getsockname(made, general, &length) != 0) {
    close(made);
    return -1;
  }
  port = place.sin_port;
  return made;
}

}  // namespace

struct NodeHeartbeats::Datagram {
  std::uint64_t job;
  std::int64_t count;
  std::array<RankActivity, ranks_of_a_datagram> ranks;

  Datagram() = default;
  // Value by value into zeros, so that what lies between the values says nothing of this process.
  Datagram(std::uint64_t job_number, std::span<const RankActivity> part) {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    job = job_number;
    count = std::ssize(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Activity& from = part[i].activity;
      Activity& to = ranks[i].activity;
      ranks[i].rank = part[i].rank;
      to.phase = from.phase;
      to.epoch = from.epoch;
      to.iteration = from.iteration;
      to.waiting = from.waiting;
      to.communicator = from.communicator;
      to.number = from.number;
      to.bytes = from.bytes;
      to.moves = from.moves;
      to.beats = from.beats;
    }
  }

  std::size_t bytes() const {
    return sizeof(Datagram) - (ranks.size() - static_cast<std::size_t>(count)) * sizeof(ranks[0]);
  }
};

NodeHeartbeats::Contact NodeHeartbeats::own_contact(int first_of_board, bool has_other_nodes) {
  Contact contact;
  contact.first_of_board = first_of_board;
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), contact.host.size() - 1), contact.host.begin());
  if (has_other_nodes) socket_ = open_socket(contact.port);
  const auto addresses = own_addresses();
  std::copy_n(addresses.begin(), std::min(addresses.size(), contact.addresses.size()),
              contact.addresses.begin());
  return contact;
}

NodeHeartbeats::NodeHeartbeats(const std::vector<int>& ranks) : own_ranks_(ranks) {
  int size = 0;
  TASUKI_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size);
  job_ = random_number();
  TASUKI_MPI(MPI_Bcast, &job_, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);

  const Contact own = own_contact(ranks.front(), std::ssize(ranks) < size);
  std::vector<Contact> contacts(static_cast<std::size_t>(size));
  TASUKI_MPI(MPI_Allgather, &own, sizeof own, MPI_BYTE, contacts.data(), sizeof own, MPI_BYTE,
             MPI_COMM_WORLD);
  for (int rank = 0; rank < size; ++rank) {
    const Contact& contact = contacts[static_cast<std::size_t>(rank)];
    hosts_.emplace_back(contact.host.data());
    if (contact.first_of_board == rank && rank != ranks.front() && contact.port != 0)
      peers_.push_back(contact);
  }
}

NodeHeartbeats::~NodeHeartbeats() {
  if (socket_ >= 0) close(socket_);
}

void NodeHeartbeats::send(std::span<const RankActivity> ranks) const {
  for (; !ranks.empty(); ranks = ranks.subspan(std::min(ranks.size(), ranks_of_a_datagram))) {
    const auto part = ranks.first(std::min(ranks.size(), ranks_of_a_datagram));
    const Datagram datagram(job_, part);
    for (const Contact& peer : peers_)
      for (const std::uint32_t address : peer.addresses) {
        if (address == 0) continue;
        const sockaddr_in place = address_of(address, peer.port);
        // Not every address of another machine can be reached; what fails is lost like any other.
        static_cast<void>(sendto(socket_, &datagram, datagram.bytes(), 0,
                                 reinterpret_cast<const sockaddr*>(&place), sizeof place));
      }
  }
}

void NodeHeartbeats::receive(const std::function<void(const RankActivity&)>& take) const {
  // An end even where somebody floods the port.
  constexpr int most_at_once = 1 << 14;
  for (int turn = 0; turn < most_at_once; ++turn) {
    Datagram datagram;
    const ssize_t bytes = recv(socket_, &datagram, sizeof datagram, 0);
    if (bytes < 0) return;
    const bool is_ours =
        static_cast<std::size_t>(bytes) >= sizeof(Datagram) - sizeof datagram.ranks &&
        datagram.job == job_ && datagram.count >= 0 &&
        datagram.count <= std::ssize(datagram.ranks) &&
        static_cast<std::size_t>(bytes) == datagram.bytes();
    if (!is_ours) continue;
    for (const RankActivity& each :
         std::span(datagram.ranks).first(static_cast<std::size_t>(datagram.count)))
      if (each.rank >= 0 && each.rank < std::ssize(hosts_) && is_valid(each.activity) &&
          std::ranges::find(own_ranks_, each.rank) == own_ranks_.end())
        take(each);
  }
}

}  // namespace tasuki

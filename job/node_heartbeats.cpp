#include "job/node_heartbeats.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "core/environment.hpp"

namespace tasuki {
namespace {

std::uint64_t random_number() {
  std::random_device source;  // the kernel's
  return (static_cast<std::uint64_t>(source()) << 32) | source();
}

sockaddr_in place_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = address;
  place.sin_port = port;
  return place;
}

// Opens a socket at this address and any free port; -1 on failure.
int open_socket(std::uint32_t address, std::uint16_t& port) {
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  sockaddr_in place = place_of(address, 0);
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

// The place of a rank.
struct NodeHeartbeats::Contact {
  int first_of_board = 0;
  HostAddresses addresses{};
  std::array<char, 64> host{};
};

NodeHeartbeats::NodeHeartbeats(const MpiComm& job, const std::vector<int>& ranks)
    : rank_(job.rank()) {
  const int size = job.size();
  key_ = {random_number(), random_number()};
  TASUKI_MPI(MPI_Bcast, key_.data(), 2, MPI_UINT64_T, 0, job.get());

  Contact own;
  own.first_of_board = ranks.front();
  own.addresses = own_addresses();
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), own.host.size() - 1), own.host.begin());
  std::vector<Contact> contacts(static_cast<std::size_t>(size));
  TASUKI_MPI(MPI_Allgather, &own, sizeof own, MPI_BYTE, contacts.data(), sizeof own, MPI_BYTE,
             job.get());
  for (const Contact& contact : contacts) {
    hosts_.emplace_back(contact.host.data());
    boards_.push_back(contact.first_of_board);
  }
  last_numbers_.resize(contacts.size());
  if (std::ssize(ranks) < size) exchange_ports(job, contacts, own);
}

// The first rank of a board opens the sockets. Each side computes which addresses the other one
// uses.
void NodeHeartbeats::exchange_ports(const MpiComm& job, const std::vector<Contact>& contacts,
                                    const Contact& own) {
  for (int rank = 0; rank < std::ssize(contacts); ++rank) {
    const Contact& contact = contacts[static_cast<std::size_t>(rank)];
    if (contact.first_of_board != rank || rank == own.first_of_board) continue;
    Peer& peer = peers_.emplace_back();
    peer.first_of_board = rank;
    for (const HeartbeatPath& path : choose_paths(own.addresses, contact.addresses))
      peer.ways.push_back({path});
  }
  const auto place_in = [](const HostAddresses& host, std::uint32_t address) {
    return static_cast<std::size_t>(std::ranges::find(host, address, &HostAddress::address) -
                                    host.begin());
  };
  std::array<std::uint16_t, std::tuple_size_v<HostAddresses>> ports{};
  if (rank_ == own.first_of_board)
    for (const Peer& peer : peers_)
      for (const Way& way : peer.ways)
        ports.at(place_in(own.addresses, way.path.from)) = socket_of(way.path.from).port;
  std::vector<decltype(ports)> all(contacts.size());
  TASUKI_MPI(MPI_Allgather, ports.data(), sizeof ports, MPI_BYTE, all.data(), sizeof ports,
             MPI_BYTE, job.get());
  for (Peer& peer : peers_) {
    const auto rank = static_cast<std::size_t>(peer.first_of_board);
    for (Way& way : peer.ways)
      way.port = all[rank].at(place_in(contacts[rank].addresses, way.path.to));
  }
}

NodeHeartbeats::~NodeHeartbeats() {
  for (const Socket& each : sockets_)
    if (each.descriptor >= 0) close(each.descriptor);
}

NodeHeartbeats::Socket& NodeHeartbeats::socket_of(std::uint32_t address) {
  const auto found = std::ranges::find(sockets_, address, &Socket::address);
  if (found != sockets_.end()) return *found;
  Socket& made = sockets_.emplace_back();
  made.address = address;
  made.descriptor = open_socket(address, made.port);
  return made;
}

void NodeHeartbeats::send(std::span<const RankActivity> ranks, bool asks) {
  Heartbeat heartbeat;
  heartbeat.sender = rank_;
  heartbeat.asks = asks;
  for (; !ranks.empty(); ranks = ranks.subspan(heartbeat.count)) {
    heartbeat.number = ++sent_;
    heartbeat.count = std::min(ranks.size(), Heartbeat::most_ranks);
    std::ranges::copy(ranks.first(heartbeat.count), heartbeat.ranks.begin());
    HeartbeatBytes bytes;
    const auto datagram = write_heartbeat(heartbeat, key_, bytes);
    for (const Peer& peer : peers_)
      for (const Way& way : peer.ways) {
        if (way.port == 0) continue;
        const sockaddr_in place = place_of(way.path.to, way.port);
        // A failed send counts as a lost datagram.
        static_cast<void>(sendto(socket_of(way.path.from).descriptor, datagram.data(),
                                 datagram.size(), 0, reinterpret_cast<const sockaddr*>(&place),
                                 sizeof place));
      }
  }
}

void NodeHeartbeats::wait(double seconds, const std::array<int, 2>& wakes) const {
  constexpr std::size_t most = std::tuple_size_v<HostAddresses>;
  std::array<pollfd, most + 2> events{};
  std::size_t count = 0;
  for (const int wake : wakes) events.at(count++) = {wake, POLLIN, 0};
  if (rank_ == boards_[static_cast<std::size_t>(rank_)])
    for (const Socket& each : sockets_) events.at(count++) = {each.descriptor, POLLIN, 0};
  poll(events.data(), count, static_cast<int>(std::ceil(seconds * 1000)));
}

NodeHeartbeats::Peer* NodeHeartbeats::peer_of(int rank) {
  if (rank < 0 || rank >= std::ssize(boards_)) return nullptr;
  const auto found =
      std::ranges::find(peers_, boards_[static_cast<std::size_t>(rank)], &Peer::first_of_board);
  return found == peers_.end() ? nullptr : &*found;
}

bool NodeHeartbeats::is_heard(int rank) {
  const Peer* const peer = peer_of(rank);
  return peer == nullptr || peer->is_heard;
}

bool NodeHeartbeats::Peer::is_at(std::uint32_t address) const {
  return std::ranges::any_of(ways, [&](const Way& way) { return way.path.to == address; });
}

bool NodeHeartbeats::is_proper(const Heartbeat& heartbeat, std::uint32_t from) {
  const Peer* const peer = peer_of(heartbeat.sender);
  return peer != nullptr && peer->is_at(from) &&
         std::ranges::all_of(heartbeat.all(),
                             [&](const RankActivity& each) { return peer_of(each.rank) == peer; });
}

bool NodeHeartbeats::receive(const std::function<void(const RankActivity&)>& take) {
  bool asks = false;
  // Limited, so that a flood of datagrams does not keep the thread here.
  constexpr int most_at_once = 1 << 12;
  for (const Socket& each : sockets_)
    for (int turn = 0; turn < most_at_once; ++turn) {
      std::array<std::byte, largest_heartbeat + 1> bytes;
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const ssize_t size = recvfrom(each.descriptor, bytes.data(), bytes.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from), &length);
      if (size < 0) break;
      const std::uint32_t address = from.sin_addr.s_addr;
      // Senders that are not nodes of the job are refused first, because that costs next to
      // nothing.
      const auto heartbeat =
          std::ranges::any_of(peers_, [&](const Peer& peer) { return peer.is_at(address); })
              ? read_heartbeat(std::span(bytes).first(static_cast<std::size_t>(size)), key_)
              : std::nullopt;
      if (!heartbeat || !is_proper(*heartbeat, address)) {
        ++refused_;
        continue;
      }
      auto& last_number = last_numbers_[static_cast<std::size_t>(heartbeat->sender)];
      if (heartbeat->number <= last_number) continue;  // it came another way, or is a replay
      last_number = heartbeat->number;
      peer_of(heartbeat->sender)->is_heard = true;
      for (const RankActivity& rank : heartbeat->all()) take(rank);
      asks = asks || heartbeat->asks;
    }
  return asks;
}

}  // namespace tasuki

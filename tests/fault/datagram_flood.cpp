#include "datagram_flood.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

namespace tasuki::testing {
namespace {

struct Heard {
  sockaddr_in to{};
  std::vector<char> bytes;
};

// An outgoing UDP datagram in an IP packet; empty bytes: something else.
Heard parse(const char* packet, std::size_t size, const sockaddr_ll& place) {
  Heard heard;
  if (place.sll_pkttype != PACKET_OUTGOING || place.sll_protocol != htons(ETH_P_IP) ||
      size < sizeof(iphdr))
    return heard;
  iphdr ip{};
  std::memcpy(&ip, packet, sizeof ip);
  const std::size_t head = ip.ihl * 4U;
  if (ip.protocol != IPPROTO_UDP || size < head + sizeof(udphdr)) return heard;
  udphdr udp{};
  std::memcpy(&udp, packet + head, sizeof udp);
  heard.to.sin_family = AF_INET;
  heard.to.sin_addr.s_addr = ip.daddr;
  heard.to.sin_port = udp.dest;
  heard.bytes.assign(packet + head + sizeof udp, packet + size);
  return heard;
}

}  // namespace

DatagramFlood::DatagramFlood() {
  // Only a socket for all protocols gets what this host itself sends.
  const int listener = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (listener < 0) throw std::runtime_error("this process may not listen to the network");
  thread_ = std::thread([this, listener] { run(listener); });
}

DatagramFlood::~DatagramFlood() {
  stopping_ = true;
  thread_.join();
}

void DatagramFlood::run(int listener) {
  constexpr std::size_t most_heard = 16;
  std::vector<Heard> heard;
  const int sender = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  std::mt19937 random(1);
  const auto send = [&](const Heard& like, const std::vector<char>& bytes) {
    static_cast<void>(sendto(sender, bytes.data(), bytes.size(), 0,
                             reinterpret_cast<const sockaddr*>(&like.to), sizeof like.to));
  };
  while (!stopping_) {
    std::array<char, 2048> packet;
    sockaddr_ll place{};
    socklen_t length = sizeof place;
    // What this thread sends is heard, too; the first ones are heartbeats.
    for (ssize_t size; heard.size() < most_heard &&
                       (size = recvfrom(listener, packet.data(), packet.size(), 0,
                                        reinterpret_cast<sockaddr*>(&place), &length)) > 0;)
      if (Heard one = parse(packet.data(), static_cast<std::size_t>(size), place);
          !one.bytes.empty())
        heard.push_back(std::move(one));
    for (const Heard& one : heard) {
      send(one, one.bytes);
      std::vector<char> changed = one.bytes;
      changed[random() % changed.size()] ^= static_cast<char>(1U << random() % 8);
      send(one, changed);
      std::vector<char> junk(random() % 1400);
      for (char& each : junk) each = static_cast<char>(random());
      send(one, junk);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  close(sender);
  close(listener);
}

}  // namespace tasuki::testing

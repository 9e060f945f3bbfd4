// Which of the addresses of two hosts they use to reach each other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tasuki {

// IPv4 in network byte order; all zeros: none.
struct HostAddress {
  std::uint32_t address = 0, mask = 0;
};
using HostAddresses = std::array<HostAddress, 8>;

// Those of this machine's interfaces that are up, in their order, loopback last.
HostAddresses own_addresses();

struct HeartbeatPath {
  std::uint32_t from = 0, to = 0;
};

// Every pair of addresses of a subnet that both hosts are in, as a firewall may close one and leave
// another open. Where there is none, one other pair: private ones (RFC 1918) rather than public
// ones, else the first. An address that both have is no way from one to the other (bridges of
// container software); where they have all in common they are one machine, and talk by its
// loopback. Empty: there is no such pair. choose_paths(b, a) has the ways back.
std::vector<HeartbeatPath> choose_paths(const HostAddresses& from, const HostAddresses& to);

}  // namespace tasuki

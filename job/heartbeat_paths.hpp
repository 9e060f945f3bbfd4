// The addresses by which two hosts reach each other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tasuki {

// IPv4, in network byte order; all zeros: none.
struct HostAddress {
  std::uint32_t address = 0, mask = 0;
};
using HostAddresses = std::array<HostAddress, 8>;

bool is_loopback(const HostAddress& one);

// The addresses of this machine's active interfaces, in their order, loopback last.
HostAddresses own_addresses();

struct HeartbeatPath {
  std::uint32_t from = 0, to = 0;
};

// All pairs of addresses in a subnet that both hosts are in, because a firewall may block some of
// them. If there is none, one other pair: preferably private addresses (RFC 1918), else the first
// ones. An address that both hosts have (a bridge of container software, say) is not used, unless
// they have all addresses in common: they are then the same machine and use its loopback. Empty if
// there is no such pair. choose_paths(b, a) returns the same pairs in the other direction.
std::vector<HeartbeatPath> choose_paths(const HostAddresses& from, const HostAddresses& to);

}  // namespace tasuki

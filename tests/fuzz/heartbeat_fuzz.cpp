// Datagrams of heartbeats: bytes without a valid seal are refused; what is accepted is what
// write_heartbeat() makes of the heartbeat. And the paths between any two hosts' addresses: the
// same ones in both directions, made of those addresses.
#include <algorithm>

#include "core/hash.hpp"
#include "fuzz.hpp"
#include "job/heartbeat_datagram.hpp"
#include "job/heartbeat_paths.hpp"

using namespace tasuki;

namespace {

constexpr SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908}, other_key{1, 2};

void check_datagram(std::span<const std::byte> body) {
  std::vector<std::byte> sealed(body.begin(), body.end());
  const std::uint64_t seal = siphash(body, key);
  const auto seal_bytes = std::as_bytes(std::span(&seal, 1));
  sealed.insert(sealed.end(), seal_bytes.begin(), seal_bytes.end());

  fuzz::require(!read_heartbeat(body, key), "a datagram without a seal is accepted");
  fuzz::require(!read_heartbeat(sealed, other_key), "a datagram with another seal is accepted");
  const std::optional<Heartbeat> heartbeat = read_heartbeat(sealed, key);
  fuzz::count(heartbeat.has_value());
  if (!heartbeat) return;
  HeartbeatBytes place;
  fuzz::require(std::ranges::equal(write_heartbeat(*heartbeat, key, place), sealed),
                "a heartbeat changes when it is written");
}

// Addresses of few kinds, so that hosts have some in common.
HostAddresses read_addresses(fuzz::Input& input) {
  constexpr std::array<std::uint32_t, 6> networks{0,          0x0000000a, 0x0100000a,
                                                  0x0000a8c0, 0x0000007f, 0x08080808};
  constexpr std::array<std::uint32_t, 4> masks{0, 0x000000ff, 0x00ffffff, 0xffffffff};
  HostAddresses addresses{};
  for (HostAddress& one : addresses) {
    const std::uint8_t kind = input.number();
    one.mask = masks[kind / 6 % masks.size()];
    one.address = networks[kind % networks.size()];
    if (one.address != 0) one.address |= static_cast<std::uint32_t>(input.number()) << 24;
  }
  return addresses;
}

void check_paths(fuzz::Input& input) {
  const HostAddresses from = read_addresses(input), to = read_addresses(input);
  const auto has = [](const HostAddresses& host, std::uint32_t address) {
    return std::ranges::find(host, address, &HostAddress::address) != host.end();
  };
  const auto pairs = [](const std::vector<HeartbeatPath>& paths, bool is_reverse) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
    for (const HeartbeatPath& path : paths)
      result.emplace_back(is_reverse ? path.to : path.from, is_reverse ? path.from : path.to);
    std::ranges::sort(result);
    return result;
  };
  const std::vector<HeartbeatPath> paths = choose_paths(from, to);
  for (const HeartbeatPath& path : paths)
    fuzz::require(path.from != 0 && path.to != 0 && has(from, path.from) && has(to, path.to),
                  "a path has an address that its host has not");
  fuzz::require(pairs(paths, false) == pairs(choose_paths(to, from), true),
                "paths differ between the two directions");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  if (input.number() % 2 == 0)
    check_datagram(input.rest());
  else
    check_paths(input);
  return 0;
}

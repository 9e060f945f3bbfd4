// Heartbeat: what a node tells the others about its ranks, in one datagram (NodeHeartbeats).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/activity.hpp"
#include "core/hash.hpp"

namespace tasuki {

struct RankActivity {
  int rank = 0;
  Activity activity{};
  bool is_traced = false;    // a debugger is attached to the process
  int stopped_launcher = 0;  // process id of its mpirun or daemon if that is stopped; else 0
  std::int64_t memory = 0;   // resident bytes of the process; 0: unknown
};

struct Heartbeat {
  static constexpr std::size_t most_ranks = 16;  // fits an Ethernet frame

  int sender = 0;            // a rank
  std::uint64_t number = 0;  // increases with every datagram of a sender
  bool asks = false;         // whether the others should send theirs at once
  std::uint64_t count = 0;   // number of ranks
  std::array<RankActivity, most_ranks> ranks{};

  std::span<const RankActivity> all() const { return std::span(ranks).first(count); }
};

constexpr std::size_t largest_heartbeat = 1229;  // bytes
using HeartbeatBytes = std::array<std::byte, largest_heartbeat>;

// Writes a datagram to `place` and returns the part of it to send. It ends in a SipHash of
// everything before it, so that it cannot be forged without the key.
std::span<const std::byte> write_heartbeat(const Heartbeat& heartbeat, const SipKey& key,
                                           HeartbeatBytes& place);

// Returns nothing for datagrams that write_heartbeat() has not made with this key. Safe for any
// bytes.
std::optional<Heartbeat> read_heartbeat(std::span<const std::byte> datagram, const SipKey& key);

}  // namespace tasuki

// What nodes tell each other of their ranks (NodeHeartbeats), as one datagram.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tasuki/core/activity.hpp"
#include "tasuki/job/siphash.hpp"

namespace tasuki {

struct RankActivity {
  int rank = 0;
  Activity activity{};
  bool is_traced = false;    // a debugger holds the process
  int stopped_launcher = 0;  // the process of its mpirun or daemon where that is stopped
};

struct Heartbeat {
  static constexpr std::size_t most_ranks = 16;  // stays within an Ethernet frame

  int sender = 0;            // a rank
  std::uint64_t number = 0;  // each datagram of a sender has a higher one than those before
  std::uint64_t count = 0;   // of ranks
  std::array<RankActivity, most_ranks> ranks{};

  std::span<const RankActivity> all() const { return std::span(ranks).first(count); }
};

constexpr std::size_t largest_heartbeat = 1100;  // bytes
using HeartbeatBytes = std::array<std::byte, largest_heartbeat>;

// Returns the part of `place` that is to be sent. It ends in a SipHash of all before it, so that
// only who has the key can make it.
std::span<const std::byte> write_heartbeat(const Heartbeat& heartbeat, const SipKey& key,
                                           HeartbeatBytes& place);

// Empty: not made by write_heartbeat with this key. Any bytes are safe to read.
std::optional<Heartbeat> read_heartbeat(std::span<const std::byte> datagram, const SipKey& key);

}  // namespace tasuki

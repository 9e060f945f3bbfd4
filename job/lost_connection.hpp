// Detects hosts that no longer answer, by the TCP connections to them.
//
// A host that loses power or its network closes no connection. The system probes idle connections
// (keepalive), but not those with data under way: it sends these data again, at growing intervals,
// for a quarter of an hour, or sends probes if it cannot send at all because this host's own
// network is down. It counts both kinds of attempts, and starts again from zero with every
// acknowledgement, which the other host's system sends whatever its processes do. The count is no
// measure of time, because the intervals stay short if this host itself has no link.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

struct UnansweredConnection {
  std::string peer;         // its address, as "10.0.0.2" or "fe80::2"
  std::uint64_t inode = 0;  // of the socket
  int attempts = 0;         // retransmissions and probes since the last acknowledgement
  double seconds = 0;       // since this was first seen
};

// The established connections to other hosts with at least three attempts, which take 1.4 s and
// which single lost packets do not cause. `text`: lines of /proc/net/tcp or /proc/net/tcp6 (Linux,
// Documentation/networking/proc_net_tcp.rst); other lines are ignored. Allocates nothing if there
// are none.
std::vector<UnansweredConnection> parse_unanswered(std::string_view text);

// Returns `now`, observed `seconds` after `before`. Connections that are in both, and that had no
// acknowledgement in between, keep their time and add `seconds` to it.
std::vector<UnansweredConnection> add_time(std::vector<UnansweredConnection> now,
                                           std::span<const UnansweredConnection> before,
                                           double seconds);

// Watches the connections of a few processes. Sees none if the system does not list connections.
class ConnectionWatch {
 public:
  // 0: no process.
  explicit ConnectionWatch(const std::array<pid_t, 2>& processes) : processes_(processes) {}

  // To be called repeatedly, with the seconds since the last call. Returns the address of a peer
  // that has not answered one of these processes for `limit` seconds, if there is one.
  std::optional<std::string> find_lost(double seconds, double limit);

 private:
  std::array<pid_t, 2> processes_;
  std::vector<UnansweredConnection> unanswered_;  // of all processes
};

}  // namespace tasuki

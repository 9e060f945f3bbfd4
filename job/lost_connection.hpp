// Which hosts no longer answer, as the TCP connections to them show it.
//
// A host that loses power or its network says nothing. The system asks for it after some idle time
// (keepalive), but not while data are under way: those it sends again, with growing pauses, for a
// quarter of an hour. What it cannot send at all, as this host's own network is switched off, it
// keeps and sends probes in the same way. It counts both and starts anew with every
// acknowledgement, which the other host's system sends, whatever its processes do. The count alone
// tells no time, as pauses stay short where this host itself has no link.
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
  double seconds = 0;       // since it was first seen so
};

// The established connections to other hosts with at least three attempts, which is 1.4 s
// after the data were sent first and not what a packet lost now and then does. `text`: lines of
// /proc/net/tcp or /proc/net/tcp6 (Linux, Documentation/networking/proc_net_tcp.rst); any that are
// not are left out. Allocates nothing where there are none.
std::vector<UnansweredConnection> parse_unanswered(std::string_view text);

// `now`, seen so many seconds after `before`, with the time of those that were there already and
// have had no acknowledgement in between.
std::vector<UnansweredConnection> add_time(std::vector<UnansweredConnection> now,
                                           std::span<const UnansweredConnection> before,
                                           double seconds);

// Watches the connections of a few processes. Where the system does not tell of connections it sees
// none.
class ConnectionWatch {
 public:
  // 0 is no process.
  explicit ConnectionWatch(const std::array<pid_t, 2>& processes) : processes_(processes) {}

  // Looks around, so many seconds after the last time. The address of a peer that has not answered
  // one of these processes for `limit` seconds, if there is any.
  std::optional<std::string> find_lost(double seconds, double limit);

 private:
  std::array<pid_t, 2> processes_;
  std::vector<UnansweredConnection> unanswered_;  // of all processes
};

}  // namespace tasuki

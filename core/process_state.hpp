// What the system says about processes of this machine.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tasuki {

struct ProcessState {
  std::array<char, 16> name{};  // zero-terminated
  char state = '?';             // as shown by ps; T: stopped
  pid_t parent = 0;
  pid_t tracer = 0;          // an attached debugger; 0: none
  std::int64_t memory = 0;   // resident bytes
  std::uint64_t caught = 0;  // signals with a handler: bit 0 is signal 1

  bool is_stopped() const { return state == 'T'; }
  bool catches(int signal) const { return (caught >> (signal - 1) & 1) != 0; }
  // A zombie: its parent has not yet asked for its exit status. Some containers' first process
  // never does.
  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

// Empty if there is no such process. Allocates nothing.
std::optional<ProcessState> process_state(pid_t process);

// The state in the text of /proc/PID/status.
ProcessState parse_process_status(std::string_view text);

// All processes that descend from `ancestor`.
std::vector<pid_t> descendants(pid_t ancestor);

}  // namespace tasuki

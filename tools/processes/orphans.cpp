#include "tools/processes/orphans.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace tasuki::processes {
namespace {

constexpr std::chrono::milliseconds look{20};
constexpr int looks = 50;

std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> found;
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

std::vector<pid_t>& own_before() {
  static std::vector<pid_t> before;
  return before;
}

}  // namespace

void adopt_orphans() {
  own_before() = children();
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    fail(ErrorKind::io, "prctl(PR_SET_CHILD_SUBREAPER): {}", std::strerror(errno));
}

bool end_orphans() {
  for (int i = 0; i < looks; ++i) {
    bool is_any = false;
    for (const pid_t orphan : children()) {
      if (std::ranges::find(own_before(), orphan) != own_before().end()) continue;
      is_any = true;
      kill(orphan, SIGKILL);
      waitpid(orphan, nullptr, WNOHANG);
    }
    if (!is_any) return true;
    std::this_thread::sleep_for(look);
  }
  return false;
}

}  // namespace tasuki::processes

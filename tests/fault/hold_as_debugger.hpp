// A process that is held as a debugger holds one.
#pragma once

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace tasuki::testing {

// A child attaches to all threads of this process, stops them for so long, and goes.
inline void hold_as_debugger(double seconds) {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    usleep(200'000);  // until the parent has allowed it
    for (const auto& each :
         std::filesystem::directory_iterator("/proc/" + std::to_string(self) + "/task")) {
      const auto thread = static_cast<pid_t>(std::stol(each.path().filename().string()));
      if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) _exit(1);
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    }
    usleep(static_cast<useconds_t>(seconds * 1e6));
    _exit(0);  // which lets them go
  }
  prctl(PR_SET_PTRACER, child);  // where only children may be debugged
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("this process cannot be held");
}

}  // namespace tasuki::testing

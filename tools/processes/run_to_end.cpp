#include "tools/processes/run_to_end.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.hpp"
#include "tools/processes/children.hpp"

namespace tasuki::processes {
namespace {

constexpr double grace = 10;  // seconds between SIGTERM and SIGKILL
constexpr std::chrono::milliseconds poll_interval{20};

std::atomic<int> signal_met = 0;

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void check(bool is_fine, const char* what) {
  if (!is_fine) fail(ErrorKind::io, "{}: {}", what, std::strerror(errno));
}

}  // namespace

void take_over_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { signal_met = number; };
  check(sigaction(SIGINT, &action, nullptr) == 0, "sigaction");
  check(sigaction(SIGTERM, &action, nullptr) == 0, "sigaction");
  adopt_orphans();
}

bool was_interrupted() {
  return signal_met != 0;
}

EndedProcess run_to_end(const std::vector<std::string>& words, const OutputFiles& files,
                        double timeout, const std::function<bool()>& is_interrupted) {
  EndedProcess ended;
  if (is_interrupted()) return {HowEnded::interrupted, 128 + SIGTERM, 0};
  const int nothing = open_nothing();
  const double start = seconds_now();
  // If this process is killed, mpirun gets a signal and ends its ranks.
  const pid_t child = start_process(words, {nothing, files.out, files.err}, SIGTERM);
  close(nothing);

  std::optional<int> status;
  double asked_to_end = 0;
  while (!(status = reap(child))) {
    const double now = seconds_now();
    if (asked_to_end == 0) {
      if (is_interrupted())
        ended.how = HowEnded::interrupted;
      else if (now - start > timeout)
        ended.how = HowEnded::timed_out;
      if (ended.how != HowEnded::by_itself) {
        asked_to_end = now;
        kill(-child, SIGTERM);
      }
    }
    if (asked_to_end != 0 && now - asked_to_end > grace) kill(-child, SIGKILL);
    std::this_thread::sleep_for(poll_interval);
  }
  ended.seconds = seconds_now() - start;
  ended.exit_code = exit_code_of(*status);
  kill(-child, SIGKILL);
  ended.is_clean = end_orphans();
  return ended;
}

}  // namespace tasuki::processes

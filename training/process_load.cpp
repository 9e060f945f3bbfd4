#include "training/process_load.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "tensor/host_memory.hpp"

namespace tasuki {

ProcessLoad::ProcessLoad() : before_(count()) {}

ProcessLoad::Counters ProcessLoad::count() {
  Counters counters{.at = std::chrono::steady_clock::now()};
  // The fields from the third on follow the program's name, which is in parentheses and may contain
  // anything; utime and stime are the 14th and 15th (proc(5)).
  std::ifstream own("/proc/self/stat");
  own.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string skipped;
  for (int field = 3; field < 14; ++field) own >> skipped;
  std::int64_t user = 0, system = 0;
  if (own >> user >> system) counters.own_ticks = user + system;

  std::ifstream machine("/proc/stat");
  machine >> skipped;  // "cpu"
  constexpr int idle = 3, waiting_for_disk = 4, fields = 8;
  for (int field = 0; field < fields; ++field) {
    std::int64_t ticks = 0;
    if (!(machine >> ticks)) break;
    counters.machine_ticks += ticks;
    if (field == idle || field == waiting_for_disk) counters.idle_ticks += ticks;
  }
  return counters;
}

ProcessLoad::Reading ProcessLoad::read() {
  const Counters now = count();
  const double seconds = std::chrono::duration<double>(now.at - before_.at).count();
  const auto part = [](double amount, double whole) {
    return 100 * amount / std::max(whole, 1e-9);
  };
  Reading reading;
  reading.cpu_percent = part(static_cast<double>(now.own_ticks - before_.own_ticks),
                             seconds * static_cast<double>(sysconf(_SC_CLK_TCK)));
  const std::int64_t all = now.machine_ticks - before_.machine_ticks;
  // The kernel's count of idle time may go backwards (proc(5), iowait).
  reading.machine_cpu_percent =
      std::clamp(part(static_cast<double>(all - (now.idle_ticks - before_.idle_ticks)),
                      static_cast<double>(all)),
                 0.0, 100.0);
  before_ = now;

  std::int64_t virtual_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages;
  constexpr double megabyte = 1e6;
  reading.memory_mb =
      static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / megabyte;
  reading.machine_free_mb = static_cast<double>(find_host_memory().free) / megabyte;
  return reading;
}

}  // namespace tasuki

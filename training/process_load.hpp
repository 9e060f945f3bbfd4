// How busy this process and this machine are, from /proc.
#pragma once

#include <chrono>
#include <cstdint>

namespace tasuki {

class ProcessLoad {
 public:
  struct Reading {
    double cpu_percent = 0;          // of this process; 200 is two cores' worth
    double machine_cpu_percent = 0;  // of all processes; 100 is all cores
    double memory_mb = 0;            // resident, of this process
    double machine_free_mb = 0;      // that processes could still take
  };

  // Readings of load are means since the one before, or since this was made.
  ProcessLoad();
  Reading read();

 private:
  struct Counters {
    std::chrono::steady_clock::time_point at;
    std::int64_t own_ticks = 0;                      // of this process
    std::int64_t machine_ticks = 0, idle_ticks = 0;  // of all CPUs together
  };
  static Counters count();

  Counters before_;
};

}  // namespace tasuki

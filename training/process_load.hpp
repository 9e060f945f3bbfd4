// Load of this process and of this machine, from /proc.
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
    double machine_free_mb = 0;      // still available to processes
  };

  // Loads are means since the previous reading, or since construction.
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

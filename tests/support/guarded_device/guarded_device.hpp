// A GPU that is not there: a backend for Device::cuda(0) that computes on the CPU, in memory that
// nobody else can touch (guarded_memory.hpp). A program that reads or writes "device" memory from
// the host without asking the backend dies at that place, and one that waits for the device is
// counted. Recordings are lists of the operations that were asked for.
#pragma once

#include <cstdint>

namespace tasuki::testing {

// Registers it; once in a process.
void register_guarded_device();

struct GuardedDeviceCounts {
  std::int64_t waits = 0;       // copies to the host and calls of synchronize()
  std::int64_t operations = 0;  // asked for, outside of replays
  std::int64_t recordings = 0, replays = 0;
};
// Whether it records, as it does at first.
void set_guarded_device_records(bool on);
// So far in this process.
GuardedDeviceCounts guarded_device_counts();

}  // namespace tasuki::testing

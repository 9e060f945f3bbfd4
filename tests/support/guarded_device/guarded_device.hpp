// A fake GPU: a backend for Device::cuda(0) that computes on the CPU, in memory that only it can
// access (guarded_memory.hpp). A program that reads or writes "device" memory from the host without
// the backend crashes at that place, and waits for the device are counted. Recordings are lists of
// operations.
#pragma once

#include <cstdint>
#include <functional>

namespace tasuki::testing {

// Registers it; once in a process.
void register_guarded_device();
// Work of a test for this device, which may touch its memory: done now, and in replays of a
// recording that is made.
void on_guarded_device(std::function<void()> work);

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

// DeviceMonitor: how busy each rank's device is, every so many seconds, in a file for each rank.
#pragma once

#include <memory>

#include "tasuki/tensor/device.hpp"
#include "tasuki/training/extension.hpp"

namespace tasuki {

// Writes <out>/monitor.<rank>.csv, a line each `seconds`: seconds since the run's start, load and
// memory of the process and of the machine (process_load.hpp), and for a GPU its load, memory,
// clock, temperature and power (gpu_sensors.hpp; what it does not measure stays empty). A thread of
// its own measures and writes; training never waits for it. What cannot be measured or written is
// one warning, and training goes on. scripts/plot_monitor makes a picture of the files.
std::unique_ptr<Extension> monitor_device(Device device, double seconds);

}  // namespace tasuki

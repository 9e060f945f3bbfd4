// DeviceMonitor: writes the load of each rank's devices to files, at regular intervals.
#pragma once

#include <memory>
#include <vector>

#include "tensor/device.hpp"
#include "training/extension.hpp"

namespace tasuki {

// Writes <out>/monitor.<rank>.csv, a line every `seconds`: seconds since the run's start, load and
// memory of the process and of the machine (process_load.hpp), and for a GPU its load, memory,
// clock, temperature and power (gpu_sensors.hpp; values that it does not measure stay empty). A
// rank with several GPUs among its `devices` (at least one) has a file for each,
// monitor.<rank>.<number of the GPU>.csv. Separate threads measure and write; training never waits
// for them. A value that cannot be measured or written causes one warning, and training continues.
// If its folder was removed, a file is started anew in the current folder after the next report
// (LogReport). scripts/plot_monitor plots the files.
std::unique_ptr<Extension> monitor_devices(std::vector<Device> devices, double seconds);

}  // namespace tasuki

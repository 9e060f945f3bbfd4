// DeviceMonitor: how busy each rank's devices are, every so many seconds, in files.
#pragma once

#include <memory>
#include <vector>

#include "tasuki/tensor/device.hpp"
#include "tasuki/training/extension.hpp"

namespace tasuki {

// Writes <out>/monitor.<rank>.csv, a line each `seconds`: seconds since the run's start, load and
// memory of the process and of the machine (process_load.hpp), and for a GPU its load, memory,
// clock, temperature and power (gpu_sensors.hpp; what it does not measure stays empty). A rank with
// several GPUs among its `devices` (at least one) has a file for each of them,
// monitor.<rank>.<number of the GPU>.csv. Threads of their own measure and write; training never
// waits for them. What cannot be measured or written is one warning, and training goes on. A file
// whose folder was removed begins anew after the next report (LogReport), where the folder is then.
// scripts/plot_monitor makes a picture of the files.
std::unique_ptr<Extension> monitor_devices(std::vector<Device> devices, double seconds);

}  // namespace tasuki

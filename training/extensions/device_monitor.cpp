#include "tasuki/training/extensions/device_monitor.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "tasuki/core/log.hpp"
#include "tasuki/training/gpu_sensors.hpp"
#include "tasuki/training/process_load.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

using Clock = std::chrono::steady_clock;

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format(",{:.1f}", *value) : ",";
}

// The thread and its file.
class Monitor {
 public:
  Monitor(std::filesystem::path path, Device device, double seconds)
      : path_(std::move(path)),
        interval_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
    if (!device.is_cpu()) open_sensors(device.index);
    thread_ = std::thread([this] { work(); });
  }
  ~Monitor() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_one();
    thread_.join();
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void open_sensors(int index) {
    try {
      sensors_.emplace(index);
    } catch (const Error& error) {
      log_warning("--monitor: {}; {} has the CPU's load only", error.what(), path_.string());
    }
  }

  void work() {
    std::ofstream file(path_);
    file << "seconds,cpu_percent,memory_mb,machine_cpu_percent,machine_free_mb"
         << (sensors_ ? ",gpu_percent,gpu_memory_mb,gpu_memory_total_mb,gpu_clock_mhz,"
                        "gpu_temperature_c,gpu_power_w\n"
                      : "\n");
    ProcessLoad process;
    const Clock::time_point start = Clock::now();
    Clock::time_point due = start + interval_;
    std::unique_lock lock(mutex_);
    for (; !stop_.wait_until(lock, due, [this] { return stopping_; }); due = next_after(due)) {
      lock.unlock();
      file << line(std::chrono::duration<double>(Clock::now() - start).count(), process.read())
           << std::flush;
      lock.lock();
      if (file) continue;
      log_warning("{}: cannot be written; the device is no longer watched", path_.string());
      return;
    }
  }

  std::string line(double seconds, const ProcessLoad::Reading& process) const {
    std::string text =
        fmt::format("{:.3f}{}{}{}{}", seconds, cell(process.cpu_percent), cell(process.memory_mb),
                    cell(process.machine_cpu_percent), cell(process.machine_free_mb));
    if (sensors_) {
      const GpuSensors::Reading gpu = sensors_->read();
      for (const auto& value : {gpu.load_percent, gpu.memory_mb, gpu.memory_total_mb, gpu.clock_mhz,
                                gpu.temperature_c, gpu.power_w})
        text += cell(value);
    }
    return text + '\n';
  }

  std::filesystem::path path_;
  // Times that went by while the thread did not run are left out.
  Clock::time_point next_after(Clock::time_point due) const {
    return std::max(due + interval_, Clock::now() + interval_ / 2);
  }

  Clock::duration interval_;
  std::optional<GpuSensors> sensors_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

class DeviceMonitor final : public Extension {
 public:
  DeviceMonitor(Device device, double seconds) : device_(device), seconds_(seconds) {}
  std::string default_name() const override { return "DeviceMonitor"; }
  void initialize(Trainer& trainer) override {
    const int rank = trainer.communicator() ? trainer.communicator()->rank() : 0;
    // Rank 0 made the folder; on another machine it may not be there.
    std::error_code ignored;
    std::filesystem::create_directories(trainer.out(), ignored);
    monitor_.emplace(trainer.out() / fmt::format("monitor.{}.csv", rank), device_, seconds_);
  }
  void run(Trainer&) override {}
  void finalize(Trainer&) override { monitor_.reset(); }
  void on_error(Trainer&) override { monitor_.reset(); }

 private:
  Device device_;
  double seconds_;
  std::optional<Monitor> monitor_;
};

}  // namespace

std::unique_ptr<Extension> monitor_device(Device device, double seconds) {
  return std::make_unique<DeviceMonitor>(device, seconds);
}

}  // namespace tasuki

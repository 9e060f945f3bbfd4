#include "training/extensions/device_monitor.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/own_file.hpp"
#include "core/own_process.hpp"
#include "training/gpu_sensors.hpp"
#include "training/process_load.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

using Clock = std::chrono::steady_clock;

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format(",{:.1f}", *value) : ",";
}

// A thread and its file.
class Monitor {
 public:
  Monitor(std::filesystem::path path, Device device, double seconds)
      : interval_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        path_(std::move(path)) {
    if (!device.is_cpu()) open_sensors(device.index);
    thread_ = std::thread([this, first = path_] { work(first); });
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

  // The file's place; if the file is missing there, it begins anew with the next line.
  void stay_in(const std::filesystem::path& folder) {
    const std::lock_guard lock(mutex_);
    const std::filesystem::path wanted = folder / path_.filename();
    std::error_code ignored;
    if (wanted == path_ && std::filesystem::exists(wanted, ignored)) return;
    path_ = wanted;
    begins_anew_ = true;
  }

 private:
  void open_sensors(int index) {
    try {
      sensors_.emplace(index);
    } catch (const Error& error) {
      log_warning("--monitor: {}; {} has only the CPU's load", error.what(), path_.string());
    }
  }

  // Called with the first line of the file.
  Descriptor open_file(const std::filesystem::path& path) const {
    Descriptor file = open_own_file(path, OwnFile::renew);
    write_to(file,
             fmt::format("seconds,cpu_percent,memory_mb,machine_cpu_percent,machine_free_mb{}\n",
                         sensors_ ? ",gpu_percent,gpu_memory_mb,gpu_memory_total_mb,gpu_clock_mhz,"
                                    "gpu_temperature_c,gpu_power_w"
                                  : ""),
             path);
    return file;
  }

  void work(const std::filesystem::path& first) {
    try {
      write_lines(first);
    } catch (const Error& error) {
      log_warning("{}; the device is no longer monitored", error.what());
    }
  }

  void write_lines(const std::filesystem::path& first) {
    std::filesystem::path path = first;
    Descriptor file = open_file(path);
    ProcessLoad process;
    const Clock::time_point start = Clock::now();
    Clock::time_point due = start + interval_;
    std::unique_lock lock(mutex_);
    for (; !stop_.wait_until(lock, due, [this] { return stopping_; }); due = next_after(due)) {
      const bool begins_anew = std::exchange(begins_anew_, false);
      path = path_;
      lock.unlock();
      if (begins_anew) file = open_file(path);
      write_to(file,
               line(std::chrono::duration<double>(Clock::now() - start).count(), process.read()),
               path);
      lock.lock();
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

  // Skips times that passed while the thread did not run.
  Clock::time_point next_after(Clock::time_point due) const {
    return std::max(due + interval_, Clock::now() + interval_ / 2);
  }

  Clock::duration interval_;
  std::optional<GpuSensors> sensors_;
  std::mutex mutex_;  // protects the members below
  std::condition_variable stop_;
  bool stopping_ = false, begins_anew_ = false;
  std::filesystem::path path_;
  std::thread thread_;
};

class DeviceMonitor final : public Extension {
 public:
  DeviceMonitor(std::vector<Device> devices, double seconds)
      : devices_(std::move(devices)), seconds_(seconds) {
    TASUKI_CHECK(!devices_.empty(), "there is no device to monitor");
    // Workers on the CPU are one process, whose load the files of GPUs have as well.
    const Device first = devices_[0];
    std::erase_if(devices_, [](Device device) { return device.is_cpu(); });
    if (devices_.empty()) devices_ = {first};
  }
  std::string default_name() const override { return "DeviceMonitor"; }
  void initialize(Trainer& trainer) override {
    const int rank = trainer.communicator() ? trainer.communicator()->rank() : 0;
    make_folder(trainer);
    for (const Device device : devices_) {
      const std::string name =
          devices_.size() > 1 ? fmt::format("{}.{}", rank, device.index) : fmt::format("{}", rank);
      monitors_.emplace_back(trainer.out() / fmt::format("monitor.{}.csv", name), device, seconds_);
    }
  }
  void run(Trainer&) override {}
  // All ranks are here and can learn the present folder: the old name may be another job's by now.
  void before_report(Trainer& trainer, const Observation&) override {
    try {
      trainer.restore_output_everywhere();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cannot_write) throw;
      return;  // the report warns about it
    }
    make_folder(trainer);
    for (const auto& monitor : monitors_) monitor->stay_in(trainer.out());
  }
  void finalize(Trainer&) override { monitors_.clear(); }
  void on_error(Trainer&) override { monitors_.clear(); }

 private:
  // Rank 0 made it; on another machine it may not exist.
  static void make_folder(const Trainer& trainer) {
    std::error_code ignored;
    std::filesystem::create_directories(trainer.out(), ignored);
  }

  std::vector<Device> devices_;
  double seconds_;
  std::list<OwnProcess<Monitor>> monitors_;
};

}  // namespace

std::unique_ptr<Extension> monitor_devices(std::vector<Device> devices, double seconds) {
  return std::make_unique<DeviceMonitor>(std::move(devices), seconds);
}

}  // namespace tasuki

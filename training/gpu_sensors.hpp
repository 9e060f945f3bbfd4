// The sensors of a GPU, through NVML: the library behind nvidia-smi, opened at run time.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tasuki {

class GpuSensors {
 public:
  // Values that a GPU does not measure are empty.
  struct Reading {
    std::optional<double> load_percent;  // share of the time in which a kernel ran
    std::optional<double> memory_mb, memory_total_mb;
    std::optional<double> clock_mhz;  // of the multiprocessors
    std::optional<double> temperature_c;
    std::optional<double> power_w;
  };

  // For the GPU that CUDA calls `index` (CUDA_VISIBLE_DEVICES decides; NVML itself numbers all GPUs
  // of the machine). An error of kind unavailable says what is missing.
  explicit GpuSensors(int index);
  ~GpuSensors();
  GpuSensors(const GpuSensors&) = delete;
  GpuSensors& operator=(const GpuSensors&) = delete;

  Reading read() const;

 private:
  struct Library;
  std::unique_ptr<const Library> library_;
  void* device_ = nullptr;
};

}  // namespace tasuki

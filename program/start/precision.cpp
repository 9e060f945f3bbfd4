#include "program/start/precision.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "program/flags/flag_groups.hpp"
#include "tensor/backend.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki::program {

namespace {

bool has_cpu(std::span<const Device> devices) {
  return std::ranges::any_of(devices, &Device::is_cpu);
}

bool has_gpu(std::span<const Device> devices) {
  return !std::ranges::all_of(devices, &Device::is_cpu);
}

void check_type(ComputeType dtype, std::span<const Device> devices) {
  if (has_cpu(devices) && (dtype == ComputeType::tf32 || dtype == ComputeType::fp16))
    fail_everywhere(ErrorKind::usage, "--dtype {}: CPUs compute in fp32 or bf16; {}",
                    name_of(compute_types(), dtype),
                    has_gpu(devices) ? "leave CPUs out of --devices, or choose one of these"
                                     : "add --gpu, or choose one of these");
}

void check_graph(const TrainingSettings& settings, std::span<const Device> devices) {
  if (settings.graph != GraphMode::on) return;
  if (settings.workers)
    fail_everywhere(
        ErrorKind::usage,
        "--graph on: steps on several devices of one process are not recorded; leave --graph out");
  if (!has_gpu(devices))
    fail_everywhere(ErrorKind::usage, "--graph on: CPUs record no steps; add --gpu");
}

void check_gpu_algorithms(const TrainingSettings& settings, std::span<const Device> devices) {
  if (settings.autotune && settings.deterministic)
    fail_everywhere(ErrorKind::usage,
                    "--autotune and --deterministic: algorithms chosen by timing, and with them "
                    "the last bits, differ from run to run; leave one out");
  if ((settings.autotune || settings.deterministic) && !has_gpu(devices))
    fail_everywhere(ErrorKind::usage,
                    "--{} chooses algorithms on GPUs, and this run has none; {}{}",
                    settings.autotune ? "autotune" : "deterministic",
                    settings.workers ? "name one with --devices" : "add --gpu",
                    settings.autotune ? "" : " (on CPUs, --conv direct gives the same bits)");
}

}  // namespace

Precision choose_precision(ComputeType dtype, std::span<const Device> devices) {
  check_type(dtype, devices);
  if (has_gpu(devices)) cuda_settings().allow_tf32 = dtype == ComputeType::tf32;
  if (dtype == ComputeType::bf16) return {DType::bfloat16, false};
  if (dtype == ComputeType::fp16) return {DType::float16, true};
  return {};
}

void check_compute_flags(const TrainingSettings& settings, std::span<const Device> devices) {
  check_type(settings.dtype, devices);
  if (settings.workers && has_gpu(devices) && settings.dtype == ComputeType::fp16)
    fail_everywhere(ErrorKind::usage,
                    "--dtype {}: several devices in one process do not scale losses; use bf16",
                    name_of(compute_types(), settings.dtype));
  check_graph(settings, devices);
  check_gpu_algorithms(settings, devices);
}

Precision apply_compute_flags(const TrainingSettings& settings, std::span<const Device> devices) {
  check_compute_flags(settings, devices);
  cuda_settings().autotune = settings.autotune;
  cuda_settings().deterministic = settings.deterministic;
  return choose_precision(settings.dtype, devices);
}

}  // namespace tasuki::program

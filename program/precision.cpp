#include "tasuki/program/precision.hpp"

#include <algorithm>

#include "tasuki/core/error.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/cuda_settings.hpp"

namespace tasuki::program {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "tf32", "bf16", "fp16"};
  return names;
}

Precision choose_precision(const std::string& dtype, std::span<const Device> devices) {
  const bool has_cpu = std::ranges::any_of(devices, &Device::is_cpu);
  const bool has_gpu = !std::ranges::all_of(devices, &Device::is_cpu);
  if (has_cpu && (dtype == "tf32" || dtype == "fp16"))
    fail_everywhere(ErrorKind::usage, "--dtype {}: CPUs compute in fp32 or bf16; {}", dtype,
                    has_gpu ? "leave them out of --devices, or choose one of these"
                            : "add --gpu, or choose one of these");
  if (has_cpu) set_cpu_product_type(dtype == "bf16" ? DType::bfloat16 : DType::float32);
  if (!has_gpu) return {};
  cuda_settings().allow_tf32 = dtype == "tf32";
  if (dtype == "bf16") return {DType::bfloat16, false};
  if (dtype == "fp16") return {DType::float16, true};
  return {};
}

}  // namespace tasuki::program

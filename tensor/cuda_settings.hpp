// How the CUDA backend computes where there is a choice. It can be set without CUDA, so that
// programs know no other header of it.
#pragma once

#include <cstddef>

namespace tasuki {

struct CudaSettings {
  // Products of float32 values in TF32 (10 bits of mantissa, float32 sums) on tensor cores. Off:
  // fused multiply-add in float32. Half types use tensor cores in any case.
  bool allow_tf32 = false;
  // Times cuDNN's and cuBLASLt's algorithms once per shape instead of asking their heuristics. Last
  // bits may then differ from run to run.
  bool autotune = false;
  // Only algorithms that give the same bits every time.
  bool deterministic = false;
  // Most memory in bytes that one operation may take beside its operands.
  std::size_t workspace_limit = std::size_t{1} << 30;
};

// The process's settings: to be changed while nothing computes, they hold from the next call on.
CudaSettings& cuda_settings();

}  // namespace tasuki

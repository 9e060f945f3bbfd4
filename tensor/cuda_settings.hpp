// Settings of the CUDA backend. They can be set without CUDA, and programs need no other header of
// the backend.
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
  // Upper limit, in bytes, of an operation's workspace.
  std::size_t workspace_limit = std::size_t{1} << 30;
};

// The settings of the process: to be changed while nothing computes; in effect from the next call
// on.
CudaSettings& cuda_settings();

}  // namespace tasuki

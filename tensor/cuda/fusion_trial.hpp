// Whether one call of cuDNN's may take the place of a convolution and a pass of ours that adds its
// bias and applies ReLU (cudnnConvolutionBiasActivationForward).
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "tensor/cuda/cudnn_support.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Of one algorithm for one shape, type and order. Some of cuDNN's kernels make 0 of a NaN, and a
// training that diverges would seem to go on, so the call has to show on this GPU that NaN stays
// NaN: with biases of NaN and of both infinities in turn, each value of the result must be what its
// bias demands. With cuda_settings().autotune it must not be slower than the two passes either. If
// cuDNN refuses the call, or it fails the trial or later, the two passes are used for good.
// Thread-safe.
class FusionTrial {
 public:
  // The work at hand. Both write y, whatever it held before.
  struct Work {
    Tensor y;  // N x C x H x W
    // max(convolution + bias, 0), the bias in y's type; cuDNN's answer.
    std::function<cudnnStatus_t(cudnnActivationDescriptor_t relu, const Tensor& bias)> fused;
    std::function<bool()> separate;  // the same in two passes; whether they were begun
    std::string name;                // for --verbose
  };

  // Whether nothing is decided yet and run() may be called: it waits for the device, which cannot
  // be recorded.
  bool is_due(const CudaContext& context) const;
  // Decides, unless another thread has. Where x or w is not finite, that speaks against the fused
  // call.
  void run(CudaContext& context, const Work& work);
  // The activation to make the fused call with; nullptr: not decided, or two passes.
  cudnnActivationDescriptor_t relu() const { return relu_; }
  // After a fused call that cuDNN answered like this: two passes from now on, which write all that
  // a call that failed may have left. An Error if it failed while it was recorded.
  void give_up(const CudaContext& context, const std::string& name, cudnnStatus_t answer);

 private:
  std::mutex mutex_;  // of run()
  std::atomic<bool> is_decided_ = false;
  std::atomic<cudnnActivationDescriptor_t> relu_ = nullptr;
};

}  // namespace tasuki

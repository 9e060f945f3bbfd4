// How cuDNN computes a convolution of given shapes: layout, algorithm, workspace. Made once per
// shape, pass, type and settings, and kept.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cuda/algorithm_trials.hpp"
#include "tensor/cuda/cudnn_support.hpp"
#include "tensor/cuda/fusion_trial.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {

enum class ConvolutionPass { forward, backward_data, backward_weights };

struct ConvolutionWork {
  ConvolutionPass pass;
  ConvolutionGeometry geometry;
  DType type;  // of the operands
};

class ConvolutionPlan {
 public:
  // An algorithm with its workspace.
  struct Choice {
    int algorithm = 0;  // of the pass's enumeration
    std::size_t workspace_bytes = 0;
    CudnnConvolution convolution;         // with the algorithm's kind of mathematics
    float milliseconds = -1;              // if it was timed
    std::unique_ptr<FusionTrial> fusion;  // with a bias and ReLU; of the forward pass
  };

  // `type` of x, y and the filter; `layout` for x and y; the filter has the same order: O x KH x KW
  // x I for channels last. `inputs`: the number of channels of x that the plan computes with: as
  // many as in the geometry, or more, which are zeros.
  ConvolutionPlan(const ConvolutionGeometry& geometry, DType type,
                  std::shared_ptr<const Layout> layout, std::int64_t inputs);

  DType type() const { return type_; }
  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  std::int64_t inputs() const { return inputs_; }
  cudnnTensorDescriptor_t x() const { return x_.get(); }
  cudnnTensorDescriptor_t y() const { return y_.get(); }
  cudnnFilterDescriptor_t w() const { return w_.get(); }
  // Of y's channels, in its type.
  cudnnTensorDescriptor_t bias() const { return bias_.get(); }

  // Its place among the types and orders that can be tried, best first.
  std::size_t form() const { return form_; }
  void set_form(std::size_t number) { form_ = number; }
  void add(Choice choice) { choices_.push_back(std::move(choice)); }
  bool is_empty() const { return choices_.empty(); }
  // The first choice in words: the algorithm's number, type, order, workspace, time.
  std::string text() const;

  // Calls `run(choice, workspace)`, which returns cuDNN's status, with the best algorithm; if cuDNN
  // does not support it after all, or fails, with the next one, for good (AlgorithmTrials).
  using Run = std::function<cudnnStatus_t(const Choice&, void* workspace)>;
  void run(CudaContext& context, const AlgorithmTrials::Work& work, const Run& run) const;

 private:
  DType type_;
  std::shared_ptr<const Layout> layout_;
  std::int64_t inputs_;
  std::size_t form_ = 0;
  CudnnTensor x_, y_, bias_;
  CudnnFilter w_;
  std::vector<Choice> choices_;
  mutable AlgorithmTrials trials_;
};

// The plan for this work and the present cuda_settings(). float32 is plain; half types and
// TF32, which tensor cores compute, are channels last if cuDNN supports that. A plan for half types
// is of type float32 where cuDNN has an algorithm for that alone (some numbers of channels, groups,
// dilation). Tensor cores take 16 bytes of channels at a time: images with other numbers of
// channels (3 colours) get channels of zeros. An Error if it has no algorithm.
const ConvolutionPlan& convolution_plan(CudaContext& context, const ConvolutionWork& work);
// The plan that takes the place of one whose algorithms have all refused or failed when they ran,
// for good: of the other order, or in float32. nullptr: none is left.
const ConvolutionPlan* replace_convolution_plan(CudaContext& context, const ConvolutionWork& work,
                                                const ConvolutionPlan& failed);

// Calls `compute(plan)`, which runs a plan for this work, and returns its result.
template <class Compute>
auto with_convolution_plan(CudaContext& context, const ConvolutionWork& work,
                           const Compute& compute) {
  const ConvolutionPlan* plan = &convolution_plan(context, work);
  std::string failures;
  for (;;) try {
      return compute(*plan);
    } catch (const NoAlgorithmLeft& error) {
      failures += (failures.empty() ? "" : "; ") + std::string(error.what());
      plan = replace_convolution_plan(context, work, *plan);
      if (plan == nullptr) throw NoAlgorithmLeft(failures);
    }
}

}  // namespace tasuki

// CUDA's Backend: cuBLASLt for matrix products, cuDNN for convolutions, our own kernels for the
// rest (pooling and batch normalisation included). The members are defined by subject in
// memory.cpp, activation.cpp, accumulation.cpp, linear.cpp, convolution.cpp and so on; kernels in
// .cu files behind headers of plain pointers.
//
// Everything is queued on the device's stream (context.hpp); only copies to the host, synchronize()
// and squared_norm() wait for it.
#pragma once

#include "tensor/backend.hpp"

namespace tasuki {

class CudaBackend final : public Backend {
 public:
  std::string describe() const override;

  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) override;
  DeviceMemory memory(Device device) override;
  void reset_peak_memory(Device device) override;
  void copy(const Tensor& destination, const Tensor& source) override;
  void fill(const Tensor& destination, double value) override;
  void synchronize(Device device) override;
  void* queue(Device device) override;
  bool is_idle(Device device) override;

  std::unique_ptr<Recording> record(Device device, const std::function<void()>& work) override;
  std::shared_ptr<Storage> allocate_mailbox(std::size_t bytes, Device device) override;
  void post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars,
            const Tensor& clock) override;
  void stamp(const Tensor& clock, StepClock::Moment moment) override;

  Tensor unary(Unary op, const Tensor& x, float slope) override;
  Tensor unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  void accumulate(const Tensor& destination, const Tensor& source, float scale) override;
  void scale(const Tensor& x, float factor) override;
  void move_averages(std::span<const MovingAverage> averages) override;
  void accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) override;
  Tensor dropout(const Tensor& x, float ratio, const Tensor& seed,
                 const Tensor& example_ids) override;
  Tensor concat(std::span<const Tensor> parts, int axis) override;
  Tensor take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) override;
  Tensor gather(const Tensor& source, const Tensor& indices, DType dtype) override;
  Tensor transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                          const Tensor& epoch, const SeededImageTransform& transform,
                          DType dtype) override;

  Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) override;
  Tensor add_linear(const Tensor& added, const Tensor& x, const Tensor& w,
                    const Tensor& b) override;
  Tensor linear_gelu(const Tensor& x, const Tensor& w, const Tensor& b, bool approximate,
                     Tensor* before) override;
  Tensor linear_backward_data(const Tensor& dy, const Tensor& w) override;
  void linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw, bool accumulate,
                               const Tensor& db) override;
  void backward_bias(const Tensor& dy, const Tensor& db, bool accumulate) override;

  Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                Tensor* prepared, bool relu) override;
  Tensor conv2d_backward_data(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                              const Conv2dOptions& options) override;
  void conv2d_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                               const Conv2dOptions& options, bool accumulate) override;

  Tensor pool2d(const Tensor& x, const Pool2dOptions& options,
                std::shared_ptr<Workspace>* workspace) override;
  Tensor pool2d_backward(const Tensor& dy, const Shape& x_shape, const Pool2dOptions& options,
                         const Workspace* workspace) override;
  Tensor relu_pool2d(const Tensor& x, const Pool2dOptions& options,
                     std::shared_ptr<Workspace>* workspace) override;
  Tensor relu_pool2d_backward(const Tensor& dy, const Shape& x_shape, const Pool2dOptions& options,
                              const Workspace* workspace) override;

  BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                             bool relu) override;
  Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                              const Tensor& mean, const Tensor& variance, float eps,
                              bool relu) override;
  Tensor batch_norm_backward(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                             const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                             const Tensor& dgamma, const Tensor& dbeta, bool accumulate,
                             const Tensor& added) override;
  Tensor batch_norm_sums(const Tensor& x) override;
  BatchNormResult batch_norm_by_sums(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                     const Tensor& sums, float eps, bool relu,
                                     const BatchNormAverages& averages) override;
  BatchNormGradientSums batch_norm_gradient_sums(const Tensor& x, const BatchNormResult& forward,
                                                 const Tensor& dy, const Tensor& gamma,
                                                 const Tensor& beta, float eps, bool relu) override;
  Tensor batch_norm_gradient(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                             const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                             const BatchNormGradientSums& own, const Tensor& all,
                             const Tensor& added) override;

  CrossEntropyResult softmax_cross_entropy(const Tensor& x, const Tensor& t,
                                           AccuracyResult* accuracy) override;
  Tensor softmax_cross_entropy_backward(const CrossEntropyResult& forward, const Tensor& t,
                                        const Tensor& dy) override;
  AccuracyResult count_correct(const Tensor& x, const Tensor& t) override;

  ElementwiseOperations& elementwise() override;
  ArrayOperations& arrays() override;
  NormalizationOperations& normalization() override;
  SequenceOperations& sequences() override;
  AttentionOperations& attention() override;
  ImageOperations& images() override;
  LossOperations& losses() override;

  void update(const UpdatePass& pass) override;
  double squared_norm(const Tensor& x) override;
  void norms(const NormPass& pass) override;
  void lamb(const LambPass& pass) override;
  void clip(const Tensor& x, const LateScale& scale, double threshold) override;
  void lars(const Tensor& g, const Tensor& w, const LarsRule& rule) override;
  void unscale(const Tensor& x, const Tensor& state) override;
  void find_non_finite(const Tensor& x, const Tensor& found) override;
  void adjust_loss_scale(const Tensor& state, const LossScaleRule& rule) override;
};

}  // namespace tasuki

// Backend: the operations that a device can compute. There is one object per kind of device;
// functions in nn/ and optimizers call it through `backend(device)`, and so do not depend on the
// device.
//
// Conventions: activations are N x C x H x W or N x F. Their type (float32, bfloat16 or float16) is
// that of results and, where the device has instructions for it, of the factors of layers'
// products; sums and everything else are computed in float32. Parameters, biases, statistics and
// all gradients of parameters are always float32. Results, scalars included, are new tensors unless
// a destination is given. Only copies to the host, item(), synchronize() and squared_norm() wait
// for a device. With `accumulate`, results are added to the destination; otherwise they overwrite
// it. Inputs and results may be in the backend's own layout (Tensor::layout); destinations given by
// the caller (gradients of parameters) are plain. Errors name the shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/image_transform.hpp"
#include "tensor/operation_options.hpp"
#include "tensor/step_clock.hpp"
#include "tensor/tensor.hpp"
#include "tensor/update_operations.hpp"

namespace tasuki {

class ArrayOperations;
class AttentionOperations;
class ElementwiseOperations;
class ImageOperations;
class LossOperations;
class NormalizationOperations;
class SequenceOperations;

// Data that a forward pass keeps for its backward pass and that only the backend can read.
struct Workspace {
  virtual ~Workspace() = default;
};

struct BatchNormResult {
  Tensor y;
  Tensor mean, variance;  // of the batch (biased), C values each
  std::shared_ptr<Workspace> workspace;
};

// Running statistics, C values each: average = decay * average + (1 - decay) * batch.
struct BatchNormAverages {
  Tensor mean, variance;
  float decay = 0;
};

// Per-channel sums, plus what the backend needs for dx.
struct BatchNormGradientSums {
  Tensor sums;  // float32, 2 C: of dy, and of dy times the normalised x; dbeta and dgamma
  Tensor rest;
};

struct CrossEntropyResult {
  Tensor loss;           // float32 scalar: mean over the examples that count, 0 if there are none
  Tensor probabilities;  // N x C softmax in float32, for the backward pass
  Tensor counted;        // int64 scalar: the examples that count
  DType dtype;           // of x, and so of dx
};

// Int64 scalars.
struct AccuracyResult {
  Tensor correct;  // rows whose largest element is at the label; among equal ones the first counts
  Tensor counted;  // rows that have a label
};

// Memory of a device, in bytes.
struct DeviceMemory {
  std::size_t in_use = 0;  // by tensors and recordings of this process
  std::size_t peak = 0;    // largest in_use since Backend::reset_peak_memory
  std::size_t free = 0;    // that allocate() could still return, including cached blocks
};

// average = decay * average + weight * value, for float32 tensors of one shape.
struct MovingAverage {
  Tensor average, value;
  float decay = 0, weight = 1;
};

// Recorded device work, which can be repeated in the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  // Queues the whole recorded work.
  virtual void replay() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string describe() const = 0;

  // --- memory ---
  // Throws OutOfMemory (tensor/out_of_memory.hpp) if there is not enough.
  virtual std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) = 0;
  virtual DeviceMemory memory(Device device) = 0;
  virtual void reset_peak_memory(Device device) = 0;
  // Between layouts, types and devices (one side may be host memory).
  virtual void copy(const Tensor& destination, const Tensor& source) = 0;
  virtual void fill(const Tensor& destination, double value) = 0;
  // Waits until all work queued so far on `device` is done.
  virtual void synchronize(Device device) = 0;
  // The queue of the calling thread's work on `device`, a cudaStream_t; null for a CPU.
  virtual void* queue(Device device) = 0;
  // Whether all work queued so far is done. Throws the error of failed work.
  virtual bool is_idle(Device device) = 0;

  // --- steps without waiting for the device ---
  // Calls `work`, which queues work on `device` in this thread, and returns that work without doing
  // it. nullptr if devices of this kind cannot record; an error if `work` does what cannot be
  // recorded (waiting, copying from or to the host). Tensors that `work` makes keep their memory as
  // long as the recording lives.
  virtual std::unique_ptr<Recording> record(Device device, const std::function<void()>& work) = 0;
  // Host memory that work on `device` can write and the host can read at the same time.
  virtual std::shared_ptr<Storage> allocate_mailbox(std::size_t bytes, Device device) = 0;
  // Writes scalars of any types, as float64, into row `*row % rows` of `table` (in such memory),
  // from column 1 on; then `*row + 1` into column 0, which tells the host that the others are
  // there. Notes the end of a step in `clock`, if defined, as stamp() does.
  virtual void post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars,
                    const Tensor& clock = {}) = 0;
  // Notes in `clock` (tensor/step_clock.hpp) when the device reaches this moment of a step.
  virtual void stamp(const Tensor& clock, StepClock::Moment moment) = 0;

  // --- element-wise ---
  virtual Tensor unary(Unary op, const Tensor& x, float slope) = 0;
  // From the function's output y.
  virtual Tensor unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) = 0;
  virtual Tensor add(const Tensor& a, const Tensor& b) = 0;
  // destination += scale * source; shapes equal.
  virtual void accumulate(const Tensor& destination, const Tensor& source, float scale) = 0;
  virtual void scale(const Tensor& x, float factor) = 0;
  // Updates each of them; at least one, of equal shapes.
  virtual void move_averages(std::span<const MovingAverage> averages) = 0;
  // sum += factor * value for scalars; sum is float64, value of any type. So sums over many steps
  // stay on their device until they are read.
  virtual void accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) = 0;
  // y = x * mask / (1 - ratio). Element j of example i is kept when the Philox number for
  // (seed, example_ids[i], j) is at least `ratio`: independent of batches, ranks and devices.
  // `seed`: one int64, used as bits; `example_ids`: N int64; both on x's device.
  virtual Tensor dropout(const Tensor& x, float ratio, const Tensor& seed,
                         const Tensor& example_ids) = 0;
  virtual Tensor concat(std::span<const Tensor> parts, int axis) = 0;
  // Inverse of concat: elements [begin, end) of an axis, copied.
  virtual Tensor take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) = 0;
  // Items of axis 0 of `source` by number (int64, on the host or the source's device), as `dtype`:
  // this makes a batch from a data set in the device's memory. float32 and uint8 can be converted
  // to floating-point types; a uint8 becomes value / 255, correctly rounded. Other conversions are
  // errors.
  virtual Tensor gather(const Tensor& source, const Tensor& indices, DType dtype) = 0;
  // gather() of images (N x C x H x W, uint8) that are transformed on the way: image indices[i]
  // with what draw_image() draws for (epoch, ids[i]). `indices`, `ids`: int64 vectors of equal
  // length; `epoch`: one int64; all on the source's device.
  virtual Tensor transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                                  const Tensor& epoch, const SeededImageTransform& transform,
                                  DType dtype) = 0;

  // --- linear: x N x I, w O x I, b O or undefined ---
  // Weights and biases of this and of convolutions may already have x's type, which saves rounding
  // them. With `relu` y is clipped at 0.
  virtual Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) = 0;
  // added + x w^T + b; `added`, N x O, has x's type. In one pass if a backend overrides it.
  virtual Tensor add_linear(const Tensor& added, const Tensor& x, const Tensor& w, const Tensor& b);
  // gelu(x w^T + b), with `approximate` by tanh (element_functions.hpp). `*before` is set to
  // x w^T + b, which the gradient needs. In one pass if a backend overrides it, in which GELU of
  // -infinity may be NaN, and not 0.
  virtual Tensor linear_gelu(const Tensor& x, const Tensor& w, const Tensor& b, bool approximate,
                             Tensor* before);
  virtual Tensor linear_backward_data(const Tensor& dy, const Tensor& w) = 0;
  // db, if defined, is overwritten with the column sums of dy.
  virtual void linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                       bool accumulate, const Tensor& db) = 0;
  // db = column sums of dy (N x O), also for convolutions (sums over N, H, W).
  virtual void backward_bias(const Tensor& dy, const Tensor& db, bool accumulate) = 0;

  // --- convolution: x N x I x H x W, w O x I/groups x KH x KW ---
  // `prepared`, if not null, is set to w in the order in which this pass needed it, which may be w
  // itself or a copy. Pass it to conv2d_backward_data in place of w, and w need not be
  // reordered again. Do not change w between the two passes. With `relu` y is clipped at 0.
  virtual Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const Conv2dOptions& options, Tensor* prepared = nullptr,
                        bool relu = false) = 0;
  virtual Tensor conv2d_backward_data(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                      const Conv2dOptions& options) = 0;
  virtual void conv2d_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                       const Conv2dOptions& options, bool accumulate) = 0;

  // --- pooling ---
  virtual Tensor pool2d(const Tensor& x, const Pool2dOptions& options,
                        std::shared_ptr<Workspace>* workspace) = 0;
  virtual Tensor pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                 const Pool2dOptions& options, const Workspace* workspace) = 0;
  // Pooling of max(x, 0): in one pass if a backend overrides these, else in two.
  virtual Tensor relu_pool2d(const Tensor& x, const Pool2dOptions& options,
                             std::shared_ptr<Workspace>* workspace);
  virtual Tensor relu_pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                      const Pool2dOptions& options, const Workspace* workspace);

  // --- batch normalisation over N, H, W; `relu`: the same pass clips the result at 0 ---
  virtual BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                     float eps, bool relu) = 0;
  virtual Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                      const Tensor& mean, const Tensor& variance, float eps,
                                      bool relu) = 0;
  // dx + added (of the shape and type of x, in any layout; undefined: nothing is added).
  virtual Tensor batch_norm_backward(const Tensor& x, const BatchNormResult& forward,
                                     const Tensor& dy, const Tensor& gamma, const Tensor& beta,
                                     float eps, bool relu, const Tensor& dgamma,
                                     const Tensor& dbeta, bool accumulate,
                                     const Tensor& added = {}) = 0;
  // --- batch normalisation in parts, for statistics of more values than x has (on other ranks) ---
  // x may have no items. Sums of several batches add up.
  //
  // Float64, by channel: sums of the values (C) and of their squares (C); and how many values a
  // channel has (1).
  virtual Tensor batch_norm_sums(const Tensor& x) = 0;
  // Normalises x by the statistics of the values that were summed, and moves `averages` (the
  // variance unbiased: times m / (m - 1) for m values) unless there were none.
  virtual BatchNormResult batch_norm_by_sums(const Tensor& x, const Tensor& gamma,
                                             const Tensor& beta, const Tensor& sums, float eps,
                                             bool relu, const BatchNormAverages& averages) = 0;
  // `forward` is a result of batch_norm_by_sums.
  virtual BatchNormGradientSums batch_norm_gradient_sums(const Tensor& x,
                                                         const BatchNormResult& forward,
                                                         const Tensor& dy, const Tensor& gamma,
                                                         const Tensor& beta, float eps,
                                                         bool relu) = 0;
  // dx + added, as in batch_norm_backward. `own`: the sums over x (batch_norm_gradient_sums);
  // `all`: BatchNormGradientSums::sums added up over all values whose statistics `forward` has.
  virtual Tensor batch_norm_gradient(const Tensor& x, const BatchNormResult& forward,
                                     const Tensor& dy, const Tensor& gamma, const Tensor& beta,
                                     float eps, bool relu, const BatchNormGradientSums& own,
                                     const Tensor& all, const Tensor& added = {}) = 0;

  // --- loss: x N x C, t N labels (int32 or int64); label -1 does not count ---
  // Sets `accuracy`, unless null, to count_correct(x, t), if possible in the same pass.
  virtual CrossEntropyResult softmax_cross_entropy(const Tensor& x, const Tensor& t,
                                                   AccuracyResult* accuracy = nullptr) = 0;
  // dx of the mean loss, times the scalar dy.
  virtual Tensor softmax_cross_entropy_backward(const CrossEntropyResult& forward, const Tensor& t,
                                                const Tensor& dy) = 0;
  virtual AccuracyResult count_correct(const Tensor& x, const Tensor& t) = 0;

  // --- further operations, by subject: tensor/<subject>_operations.hpp ---
  virtual ElementwiseOperations& elementwise() = 0;
  virtual ArrayOperations& arrays() = 0;
  virtual NormalizationOperations& normalization() = 0;
  virtual SequenceOperations& sequences() = 0;
  virtual AttentionOperations& attention() = 0;
  virtual ImageOperations& images() = 0;
  virtual LossOperations& losses() = 0;

  // --- optimizer ---
  virtual void update(const UpdatePass& pass) = 0;
  // Sum of squares, in double.
  virtual double squared_norm(const Tensor& x) = 0;
  // Norms of parameters and gradients. The order of additions depends on their sizes and the device
  // only; does not wait for the device.
  virtual void norms(const NormPass& pass) = 0;
  // The first pass of LAMB. Adds in the same order as norms(); does not wait for the device.
  virtual void lamb(const LambPass& pass) = 0;
  // x *= min(1, threshold / (scale * |x|)), |x| the L2 norm; does not wait for the device.
  virtual void clip(const Tensor& x, const LateScale& scale, double threshold) = 0;
  // Changes the gradient `g` of parameter `w`; does not wait for the device.
  virtual void lars(const Tensor& g, const Tensor& w, const LarsRule& rule) = 0;
  // `state`: three float32: the loss scale, the number of good steps in a row, and whether a
  // non-finite number was found. unscale() divides x by the scale and notes non-finite numbers.
  // adjust_loss_scale() lowers the scale if one was noted, raises it after `interval` good steps,
  // and clears the note.
  virtual void unscale(const Tensor& x, const Tensor& state) = 0;
  virtual void adjust_loss_scale(const Tensor& state, const LossScaleRule& rule) = 0;
  // Sets `found`, one float32, to 1 if a value of x (float32) is not finite; does not wait for the
  // device.
  virtual void find_non_finite(const Tensor& x, const Tensor& found) = 0;
};

// The backend of a device. The CPU's always exists; CUDA's is loaded by `load_cuda_backend`, and
// asking for it before that is an error.
Backend& backend(Device device);
void register_backend(DeviceKind kind, std::unique_ptr<Backend> implementation);

// Sets how many threads the CPU backend's loops and oneDNN use when the calling thread runs them.
// After the call these threads treat subnormal numbers as zero (FTZ and DAZ), which keeps training
// at full speed.
void set_cpu_threads(int threads);
// 1 inside an OpenMP region, also of the program: what runs there has one thread.
int cpu_threads();

}  // namespace tasuki

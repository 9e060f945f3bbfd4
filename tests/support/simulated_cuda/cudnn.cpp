// cuDNN's convolutions as their documentation defines them, sum by sum. What it does not support is
// up to tests (refusals.hpp).
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "cudnn_handle.hpp"
#include "queue.hpp"
#include "refusals.hpp"
#include "values.hpp"

// A tensor N x C x H x W or a filter O x I x KH x KW, and the steps between values along these
// axes.
struct cudnnTensorStruct {
  tasuki::simulated::ValueType type;
  cudnnTensorFormat_t format;
  std::array<long, 4> size, step;

  std::size_t at(long n, long c, long h, long w) const {
    return static_cast<std::size_t>(n * step[0] + c * step[1] + h * step[2] + w * step[3]);
  }
};
struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  long pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace tasuki::simulated {
namespace {

void describe(cudnnTensorStruct& made, cudnnTensorFormat_t format, cudnnDataType_t type, long n,
              long c, long h, long w) {
  made.type = type_of(type);
  made.format = format;
  made.size = {n, c, h, w};
  made.step = format == CUDNN_TENSOR_NHWC ? std::array<long, 4>{h * w * c, 1, w * c, c}
                                          : std::array<long, 4>{c * h * w, h * w, w, 1};
}

struct Problem {
  cudnnTensorStruct x, w, y;
  cudnnConvolutionStruct convolution;

  bool fits() const {
    const auto& c = convolution;
    const auto out = [](long in, long pad, long kernel, long stride, long dilation) {
      return (in + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
    };
    return x.type == w.type && x.type == y.type && x.type != ValueType::unknown &&
           y.size[0] == x.size[0] && y.size[1] == w.size[0] && w.size[1] * c.groups == x.size[1] &&
           w.size[0] % c.groups == 0 &&
           y.size[2] == out(x.size[2], c.pad_h, w.size[2], c.stride_h, c.dilation_h) &&
           y.size[3] == out(x.size[3], c.pad_w, w.size[3], c.stride_w, c.dilation_w);
  }

  ConvolutionKind kind() const {
    const auto& c = convolution;
    return {.is_channels_last = x.format == CUDNN_TENSOR_NHWC,
            .is_16bit = x.type != ValueType::float32,
            .is_irregular = c.groups > 1 || c.dilation_h > 1 || c.dilation_w > 1 ||
                            x.size[1] % 8 != 0 || y.size[1] % 8 != 0};
  }

  // Tensor cores round float32 operands; only CUDNN_FMA_MATH keeps off them.
  bool is_tf32() const {
    return x.type == ValueType::float32 && convolution.math != CUDNN_FMA_MATH;
  }

  // visitor(weight, x, y, count, step of x, step of y) with indices, for `count` products of one
  // weight with neighbouring values of x and y.
  template <class Visitor>
  void for_products(Visitor&& visitor) const {
    const auto& c = convolution;
    const long outputs = w.size[0], inputs = w.size[1], outputs_of_group = outputs / c.groups;
    const long x_step = c.stride_w * x.step[3], y_step = y.step[3];
    for (long n = 0; n < y.size[0]; ++n)
      for (long o = 0; o < outputs; ++o)
        for (long i = 0; i < inputs; ++i)
          for (long kh = 0; kh < w.size[2]; ++kh)
            for (long kw = 0; kw < w.size[3]; ++kw) {
              const long channel = o / outputs_of_group * inputs + i;
              // iw = ow * stride + shift lies within the image for ow in first .. last.
              const long shift = kw * c.dilation_w - c.pad_w;
              const long first = shift < 0 ? (-shift + c.stride_w - 1) / c.stride_w : 0;
              const long room = x.size[3] - 1 - shift;
              if (room < 0) continue;
              const long last = std::min(y.size[3] - 1, room / c.stride_w);
              if (last < first) continue;
              for (long oh = 0; oh < y.size[2]; ++oh) {
                const long ih = oh * c.stride_h - c.pad_h + kh * c.dilation_h;
                if (ih < 0 || ih >= x.size[2]) continue;
                visitor(w.at(o, i, kh, kw), x.at(n, channel, ih, first * c.stride_w + shift),
                        y.at(n, o, oh, first), static_cast<std::size_t>(last - first + 1),
                        static_cast<std::size_t>(x_step), static_cast<std::size_t>(y_step));
              }
            }
  }
};

std::size_t count(const cudnnTensorStruct& t) {
  return static_cast<std::size_t>(t.size[0] * t.size[1] * t.size[2] * t.size[3]);
}

std::vector<float> floats(const cudnnTensorStruct& t, const void* values, bool is_tf32) {
  std::vector<float> result(count(t));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float value = load(t.type, values, i);
    result[i] = is_tf32 ? to_tf32(value) : value;
  }
  return result;
}

// values = alpha * sums + beta * values; with beta = 0 values are not read.
void blend(const cudnnTensorStruct& t, void* values, const std::vector<double>& sums, float alpha,
           float beta) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value = alpha * static_cast<float>(sums[i]);
    if (beta != 0) value += beta * load(t.type, values, i);
    store(t.type, values, i, value);
  }
}

// What an algorithm leaves that fails in between.
void spoil(const cudnnTensorStruct& t, void* values, cudaStream_t stream) {
  enqueue(stream, [=] {
    const Access access;
    for (std::size_t i = 0; i < count(t); ++i) store(t.type, values, i, 1e6F);
  });
}

enum class Result { x, w, y };

// Two algorithms are offered: one without workspace and one that wants some.
constexpr std::size_t wanted_workspace(int algorithm) {
  return algorithm == 1 ? 1024 : 0;
}

cudnnStatus_t convolve(cudnnHandle_t handle, const Problem& problem, Result result, int algorithm,
                       const void* alpha, const void* beta, void* x, void* w, void* y,
                       std::size_t workspace_bytes) {
  if (!problem.fits()) return CUDNN_STATUS_BAD_PARAM;
  if (workspace_bytes < wanted_workspace(algorithm)) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t refused = refusal(Moment::run, algorithm, problem.kind(), handle->stream);
  if (refused >= CUDNN_STATUS_INTERNAL_ERROR) {
    const auto& [tensor, values] = result == Result::x   ? std::pair(problem.x, x)
                                   : result == Result::w ? std::pair(problem.w, w)
                                                         : std::pair(problem.y, y);
    spoil(tensor, values, handle->stream);
    fail_at_execution(handle->stream);
  }
  if (refused != CUDNN_STATUS_SUCCESS) return refused;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  enqueue(handle->stream, [=] {
    const Access access;
    const cudnnTensorStruct& target = result == Result::x   ? problem.x
                                      : result == Result::w ? problem.w
                                                            : problem.y;
    std::vector<double> sums(count(target));
    const auto operand = [&](Result which, const cudnnTensorStruct& tensor, const void* values) {
      return result == which ? std::vector<float>() : floats(tensor, values, problem.is_tf32());
    };
    const auto in_x = operand(Result::x, problem.x, x);
    const auto in_w = operand(Result::w, problem.w, w);
    const auto in_y = operand(Result::y, problem.y, y);
    problem.for_products([&](std::size_t wi, std::size_t xi, std::size_t yi, std::size_t terms,
                             std::size_t x_step, std::size_t y_step) {
      const auto weight = result == Result::w ? 0.0 : static_cast<double>(in_w[wi]);
      double sum = 0;
      for (std::size_t i = 0; i < terms; ++i, xi += x_step, yi += y_step) {
        if (result == Result::x)
          sums[xi] += weight * static_cast<double>(in_y[yi]);
        else if (result == Result::y)
          sums[yi] += weight * static_cast<double>(in_x[xi]);
        else
          sum += static_cast<double>(in_x[xi]) * static_cast<double>(in_y[yi]);
      }
      if (result == Result::w) sums[wi] += sum;
    });
    blend(target, result == Result::x ? x : result == Result::w ? w : y, sums, a, b);
  });
  return CUDNN_STATUS_SUCCESS;
}

template <class Offer, class Algorithm>
cudnnStatus_t offer(const Problem& problem, int room, int* found, Offer* offers) {
  *found = 0;
  const cudnnStatus_t refused = refusal(Moment::ask, -1, problem.kind());
  if (refused != CUDNN_STATUS_SUCCESS) return refused;
  if (!problem.fits()) return CUDNN_STATUS_BAD_PARAM;
  for (int algorithm = 1; algorithm >= 0 && *found < room; --algorithm) {
    Offer& next = offers[(*found)++];
    next = {};
    next.algo = static_cast<Algorithm>(algorithm);
    next.status = refusal(Moment::offer, algorithm, problem.kind());
    next.time = static_cast<float>(2 - algorithm);
    next.memory = wanted_workspace(algorithm);
    next.determinism = CUDNN_DETERMINISTIC;
    next.mathType = problem.convolution.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_of(const Problem& problem, int algorithm, std::size_t* bytes) {
  *bytes = wanted_workspace(algorithm);
  return refusal(Moment::workspace, algorithm, problem.kind());
}

void* writable(const void* values) {
  return const_cast<void*>(values);
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const std::uint64_t number = number_of(stream);
  if (!handle->is_sound() || number == 0) return CUDNN_STATUS_INTERNAL_ERROR;
  handle->stream = stream;
  handle->number = number;
  return CUDNN_STATUS_SUCCESS;
}
// SIMULATED_CUDNN_VERSION: an earlier one.
std::size_t cudnnGetVersion() {
  const char* const text = std::getenv("SIMULATED_CUDNN_VERSION");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t /*status*/) {
  return "an error of the simulated cuDNN";
}
void cudnnGetLastErrorString(char* message, std::size_t room) {
  std::strncpy(message, "", room);
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  *made = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  describe(*tensor, format, type, n, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  *made = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  describe(*filter, format, type, k, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  *made = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  delete convolution;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  *convolution = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w};
  return mode == CUDNN_CROSS_CORRELATION && type == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS
                                                                     : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t type) {
  convolution->math = type;
  return CUDNN_STATUS_SUCCESS;
}

// --- forward ---

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y,
                                                     const int room, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* offers) {
  return offer<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>({*x, *w, *y, *convolution},
                                                                         room, found, offers);
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*,
    const cudnnFilterDescriptor_t w, const void*, const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y, void*, const int room, int* found,
    cudnnConvolutionFwdAlgoPerf_t* offers, void*, std::size_t) {
  if (const auto error = finish(handle->stream); error != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, room, found, offers);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of({*x, *w, *y, *convolution}, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* x_values,
                                      const cudnnFilterDescriptor_t w, const void* w_values,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* /*workspace*/,
                                      std::size_t room, const void* beta,
                                      const cudnnTensorDescriptor_t y, void* y_values) {
  return convolve(handle, {*x, *w, *y, *convolution}, Result::y, algorithm, alpha, beta,
                  writable(x_values), writable(w_values), y_values, room);
}

// --- backward, data ---

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int room, int* found, cudnnConvolutionBwdDataAlgoPerf_t* offers) {
  return offer<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(
      {*dx, *w, *dy, *convolution}, room, found, offers);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx, void*, const int room, int* found,
    cudnnConvolutionBwdDataAlgoPerf_t* offers, void*, std::size_t) {
  if (const auto error = finish(handle->stream); error != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, dy, convolution, dx, room, found,
                                                     offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of({*dx, *w, *dy, *convolution}, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w, const void* w_values,
                                           const cudnnTensorDescriptor_t dy, const void* dy_values,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void*,
                                           std::size_t room, const void* beta,
                                           const cudnnTensorDescriptor_t dx, void* dx_values) {
  return convolve(handle, {*dx, *w, *dy, *convolution}, Result::x, algorithm, alpha, beta,
                  dx_values, writable(w_values), writable(dy_values), room);
}

// --- backward, weights ---

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int room, int* found, cudnnConvolutionBwdFilterAlgoPerf_t* offers) {
  return offer<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(
      {*x, *dw, *dy, *convolution}, room, found, offers);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw, void*, const int room, int* found,
    cudnnConvolutionBwdFilterAlgoPerf_t* offers, void*, std::size_t) {
  if (const auto error = finish(handle->stream); error != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, dy, convolution, dw, room, found,
                                                       offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of({*x, *dw, *dy, *convolution}, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x, const void* x_values,
    const cudnnTensorDescriptor_t dy, const void* dy_values,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void*, std::size_t room, const void* beta, const cudnnFilterDescriptor_t dw, void* dw_values) {
  return convolve(handle, {*x, *dw, *dy, *convolution}, Result::w, algorithm, alpha, beta,
                  writable(x_values), dw_values, writable(dy_values), room);
}

}  // extern "C"
}  // namespace tasuki::simulated

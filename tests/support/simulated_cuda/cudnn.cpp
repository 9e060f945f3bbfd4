// cuDNN's convolutions as their documentation defines them, sum by sum. What it does not support is
// up to tests (refusals.hpp).
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cudnn_convolution.hpp"
#include "cudnn_handle.hpp"
#include "queue.hpp"
#include "refusals.hpp"

struct cudnnActivationStruct {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
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

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* made) {
  *made = new cudnnActivationStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  delete activation;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double /*limit*/) {
  *activation = {mode, nan};
  return CUDNN_STATUS_SUCCESS;
}
// What it supports is listed at this function in cuDNN's reference.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x, const void* x_values,
    const cudnnFilterDescriptor_t w, const void* w_values,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
    void* /*workspace*/, std::size_t room, const void* z_alpha, const cudnnTensorDescriptor_t z,
    const void* z_values, const cudnnTensorDescriptor_t bias, const void* bias_values,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y, void* y_values) {
  for (const void* const given : {alpha, x_values, w_values, z_alpha, z_values, bias_values,
                                  static_cast<const void*>(y_values)})
    if (given == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const bool is_relu = activation->mode == CUDNN_ACTIVATION_RELU;
  const bool is_known = is_relu || (activation->mode == CUDNN_ACTIVATION_IDENTITY &&
                                    algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  const bool is_bias = bias->type == y->type && bias->step[1] == 1 &&
                       bias->size == std::array<long, 4>{1, w->size[0], 1, 1};
  const bool is_like_y = z->type == y->type && z->size == y->size && z->step == y->step;
  const bool asks = activation->nan == CUDNN_PROPAGATE_NAN;
  if (!is_known || !is_bias || !is_like_y || (asks && fused_relu() == FusedRelu::takes_no_request))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (x_values == y_values || x_values == z_values) return CUDNN_STATUS_BAD_PARAM;
  for (int i = 0; fused_relu() == FusedRelu::slow && i < 2; ++i) enqueue(handle->stream, [] {});
  const bool keeps_nan =
      fused_relu() == FusedRelu::takes_no_request || (asks && fused_relu() != FusedRelu::drops_nan);
  const Epilogue epilogue{bias_values, z_values, is_relu, keeps_nan,
                          fused_relu() == FusedRelu::reads_z};
  return convolve(handle, {*x, *w, *y, *convolution}, Result::y, algorithm, alpha, z_alpha,
                  writable(x_values), writable(w_values), y_values, room, &epilogue);
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

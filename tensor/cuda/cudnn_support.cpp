#include "tensor/cuda/cudnn_support.hpp"

#include <array>
#include <limits>
#include <map>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda_loading/loader.hpp"

namespace tasuki {
namespace {

using CudnnHandle = CudnnDescriptor<cudnnHandle_t, &cudnnDestroy>;

// cuDNN's text about the calling thread's last failure, on one line.
std::string last_text() {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size() - 1);
  std::string line(text.data());
  for (char& letter : line)
    if (letter == '\n') letter = ' ';
  return line.empty() ? "" : "; cuDNN says: " + line;
}

ErrorKind kind_of(cudnnStatus_t code) {
  switch (code) {
    case CUDNN_STATUS_NOT_INITIALIZED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
      return ErrorKind::unavailable;
    default:
      return ErrorKind::internal;
  }
}

// The handles of the calling thread, by device.
std::map<int, CudnnHandle>& handles() {
  thread_local std::map<int, CudnnHandle> made;
  return made;
}

}  // namespace

std::string cudnn_text(cudnnStatus_t code) {
  return cudnnGetErrorString(code) + last_text();
}

void check_cudnn(cudnnStatus_t code, const char* call) {
  if (code == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  fail(kind_of(code), "{} failed: {}", call, cudnn_text(code));
}

cudnnHandle_t cudnn_handle(const CudaContext& context) {
  CudnnHandle& handle = handles()[context.device().index];
  if (handle == nullptr) {
    static const bool has_compiler = open_runtime_compiler(CUDART_VERSION / 1000);
    if (!has_compiler) log_verbose("there is no NVRTC here: cuDNN has fewer algorithms");
    cudnnHandle_t made = nullptr;
    check_cudnn(cudnnCreate(&made), "cudnnCreate");
    handle.reset(made);
  }
  check_cudnn(cudnnSetStream(handle.get(), context.stream()), "cudnnSetStream");
  return handle.get();
}

void return_cudnn_stream(const CudaContext& context) noexcept {
  const auto found = handles().find(context.device().index);
  if (found != handles().end() && found->second != nullptr)
    static_cast<void>(cudnnSetStream(found->second.get(), context.stream()));
}

cudnnDataType_t cudnn_type(DType type) {
  switch (type) {
    case DType::float32:
      return CUDNN_DATA_FLOAT;
    case DType::float16:
      return CUDNN_DATA_HALF;
    case DType::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      fail(ErrorKind::internal, "cuDNN was given values of type {}", name_of(type));
  }
}

int cudnn_size(std::int64_t size) {
  TASUKI_CHECK(size <= std::numeric_limits<int>::max(), "cuDNN cannot count to {}", size);
  return static_cast<int>(size);
}

CudnnTensor cudnn_tensor(const Shape& shape, DType type, cudnnTensorFormat_t format) {
  cudnnTensorDescriptor_t made = nullptr;
  check_cudnn(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
  CudnnTensor descriptor(made);
  check_cudnn(
      cudnnSetTensor4dDescriptor(made, format, cudnn_type(type), cudnn_size(shape[0]),
                                 cudnn_size(shape[1]), cudnn_size(shape[2]), cudnn_size(shape[3])),
      "cudnnSetTensor4dDescriptor");
  return descriptor;
}

CudnnFilter cudnn_filter(const Shape& shape, DType type, cudnnTensorFormat_t format) {
  cudnnFilterDescriptor_t made = nullptr;
  check_cudnn(cudnnCreateFilterDescriptor(&made), "cudnnCreateFilterDescriptor");
  CudnnFilter descriptor(made);
  check_cudnn(
      cudnnSetFilter4dDescriptor(made, cudnn_type(type), format, cudnn_size(shape[0]),
                                 cudnn_size(shape[1]), cudnn_size(shape[2]), cudnn_size(shape[3])),
      "cudnnSetFilter4dDescriptor");
  return descriptor;
}

CudnnActivation cudnn_relu(cudnnNanPropagation_t nan) {
  cudnnActivationDescriptor_t made = nullptr;
  check_cudnn(cudnnCreateActivationDescriptor(&made), "cudnnCreateActivationDescriptor");
  CudnnActivation descriptor(made);
  // The limit is an upper one.
  check_cudnn(cudnnSetActivationDescriptor(made, CUDNN_ACTIVATION_RELU, nan,
                                           std::numeric_limits<double>::max()),
              "cudnnSetActivationDescriptor");
  return descriptor;
}

}  // namespace tasuki

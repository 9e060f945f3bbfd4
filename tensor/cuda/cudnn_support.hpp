// cuDNN: checked calls, the handle, descriptors.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "tensor/cuda/context.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

// A failure becomes an Error with the name of the function, the code's name and the library's last
// text.
void check_cudnn(cudnnStatus_t code, const char* call);
// The code's name and that text.
std::string cudnn_text(cudnnStatus_t code);

// The calling thread's handle for a device, with that thread's stream set. Made at the first use,
// because cuDNN's parts are loaded then, which networks without convolutions never need.
cudnnHandle_t cudnn_handle(const CudaContext& context);

// To be called after a scope of another stream: sets the calling thread's handle for this device,
// if any, back to the thread's stream, so that it never names a destroyed one. If cuDNN refuses
// that, the next cudnn_handle() throws.
void return_cudnn_stream(const CudaContext& context) noexcept;

template <auto function>
struct CudnnRelease {
  template <class T>
  void operator()(T* descriptor) const {
    static_cast<void>(function(descriptor));
  }
};
template <class Descriptor, auto function>
using CudnnDescriptor = std::unique_ptr<std::remove_pointer_t<Descriptor>, CudnnRelease<function>>;

using CudnnTensor = CudnnDescriptor<cudnnTensorDescriptor_t, &cudnnDestroyTensorDescriptor>;
using CudnnFilter = CudnnDescriptor<cudnnFilterDescriptor_t, &cudnnDestroyFilterDescriptor>;
using CudnnConvolution =
    CudnnDescriptor<cudnnConvolutionDescriptor_t, &cudnnDestroyConvolutionDescriptor>;
using CudnnActivation =
    CudnnDescriptor<cudnnActivationDescriptor_t, &cudnnDestroyActivationDescriptor>;

// float32, float16 or bfloat16.
cudnnDataType_t cudnn_type(DType type);
// Dense tensors of four axes, in the order of shapes, stored in the order of `format`.
CudnnTensor cudnn_tensor(const Shape& shape, DType type, cudnnTensorFormat_t format);
CudnnFilter cudnn_filter(const Shape& shape, DType type, cudnnTensorFormat_t format);
CudnnActivation cudnn_relu(cudnnNanPropagation_t nan);

// As cuDNN's type of sizes; an Error if a size exceeds its 31 bits.
int cudnn_size(std::int64_t size);

}  // namespace tasuki

// Memory of the CUDA backend: allocation, copies between devices, types and layouts, filling.
#include <cmath>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/copy_kernels.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/step_filters.hpp"

namespace tasuki {
namespace {

void copy_between_gpus(const Tensor& destination, const Tensor& source) {
  CudaContext& from = CudaContext::of(source.device());
  const cudaStream_t reading = from.stream();
  // An event is recorded while its device is current, and can be waited for from any device.
  const CudaEvent written = make_event();
  check_cuda(cudaEventRecord(written.get(), reading), "cudaEventRecord");
  CudaContext& to = CudaContext::of(destination.device());
  check_cuda(cudaStreamWaitEvent(to.stream(), written.get()), "cudaStreamWaitEvent");
  check_cuda(cudaMemcpyPeerAsync(destination.raw(), destination.device().index, source.raw(),
                                 source.device().index, source.bytes(), to.stream()),
             "cudaMemcpyPeerAsync");
  // Only after that may the source's memory be reused on its stream.
  const CudaEvent copied = make_event();
  check_cuda(cudaEventRecord(copied.get(), to.stream()), "cudaEventRecord");
  CudaContext::of(source.device());
  check_cuda(cudaStreamWaitEvent(reading, copied.get()), "cudaStreamWaitEvent");
}

// Type and layout are the same on both sides.
void copy_bytes(const Tensor& destination, const Tensor& source) {
  const bool to_host = destination.device().is_cpu(), from_host = source.device().is_cpu();
  if (!to_host && !from_host && destination.device() != source.device())
    return copy_between_gpus(destination, source);
  CudaContext& context = CudaContext::of(to_host ? source.device() : destination.device());
  if (from_host)
    context.staging().upload(destination.raw(), source.raw(), source.bytes(), context.stream());
  else if (to_host)
    context.staging().download(destination.raw(), source.raw(), source.bytes(), context.stream());
  else
    check_cuda(cudaMemcpyAsync(destination.raw(), source.raw(), source.bytes(),
                               cudaMemcpyDeviceToDevice, context.stream()),
               "cudaMemcpyAsync (on the device)");
}

// On one GPU, of one type: from plain to channels last or back.
void rearrange(const Tensor& destination, const Tensor& source) {
  const Shape& shape = source.shape();
  std::int64_t rows = shape[1], columns = shape[2] * shape[3];
  if (is_channels_last(source)) std::swap(rows, columns);
  const CudaContext& context = CudaContext::of(source.device());
  kernels::transpose(context.launch(), destination.raw(), source.raw(), size_of(source.dtype()),
                     shape[0], rows, columns);
  check_launch("transpose");
}

}  // namespace

const std::shared_ptr<const Layout>& channels_last() {
  static const std::shared_ptr<const Layout> layout = std::make_shared<ChannelsLast>();
  return layout;
}

Tensor cuda_empty(const Shape& shape, DType dtype, Device device,
                  std::shared_ptr<const Layout> layout) {
  TASUKI_CHECK(layout == nullptr || shape.rank() == 4, "a tensor of {} has no channels to lie last",
               shape.text());
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  return {CudaContext::of(device).allocate(bytes), 0, shape, dtype, std::move(layout)};
}

Tensor cuda_empty_like(const Tensor& x) {
  return cuda_empty(x.shape(), x.dtype(), x.device(), x.layout());
}

Tensor cuda_in_layout(const Tensor& x, const std::shared_ptr<const Layout>& layout) {
  if (x.layout() == layout) return x;
  Tensor made = cuda_empty(x.shape(), x.dtype(), x.device(), layout);
  if (x.count() > 0) rearrange(made, x);
  return made;
}

std::shared_ptr<Storage> CudaBackend::allocate(std::size_t bytes, Device device) {
  return CudaContext::of(device).allocate(bytes);
}

DeviceMemory CudaBackend::memory(Device device) {
  const CudaContext& context = CudaContext::of(device);
  const BlockPool::Statistics pool = context.pool()->statistics();
  const std::size_t recorded = recording_bytes(context);
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {pool.in_use + recorded, pool.peak + recorded, free + pool.reserved - pool.in_use};
}

void CudaBackend::reset_peak_memory(Device device) {
  CudaContext::of(device).pool()->reset_peak();
}

void CudaBackend::copy(const Tensor& destination, const Tensor& source) {
  if (source.count() == 0) return;
  if (has_16_bits(destination.dtype()) && !destination.device().is_cpu())
    filters_change(destination);
  if (destination.dtype() == source.dtype() && destination.layout() == source.layout())
    return copy_bytes(destination, source);
  // Types and layouts are converted on the GPU; host memory is always plain.
  if (source.device().is_cpu()) {
    const Tensor uploaded =
        cuda_empty(source.shape(), source.dtype(), destination.device(), source.layout());
    copy_bytes(uploaded, source);
    return copy(destination, uploaded);
  }
  if (destination.device() != source.device()) {
    const Tensor changed =
        cuda_empty(source.shape(), destination.dtype(), source.device(), destination.layout());
    copy(changed, source);
    return copy_bytes(destination, changed);
  }
  if (destination.dtype() == source.dtype()) return rearrange(destination, source);
  const Tensor from = cuda_in_layout(source, destination.layout());
  kernels::convert(launch_on(source), destination.dtype(), destination.raw(), from.dtype(),
                   from.raw(), from.count());
  check_launch("convert");
}

void CudaBackend::fill(const Tensor& destination, double value) {
  if (destination.count() == 0) return;
  if (has_16_bits(destination.dtype())) filters_change(destination);
  const CudaContext& context = CudaContext::of(destination.device());
  if (value == 0 && !std::signbit(value)) {
    check_cuda(cudaMemsetAsync(destination.raw(), 0, destination.bytes(), context.stream()),
               "cudaMemsetAsync");
    return;
  }
  kernels::fill(context.launch(), destination.dtype(), destination.raw(), value,
                destination.count());
  check_launch("fill");
}

void CudaBackend::synchronize(Device device) {
  const WaitScope waiting(Waiting::gpu);
  check_cuda(cudaStreamSynchronize(CudaContext::of(device).stream()), "waiting for the device");
}

void* CudaBackend::queue(Device device) {
  return CudaContext::of(device).launch().stream;
}

bool CudaBackend::is_idle(Device device) {
  const cudaError_t code = cudaStreamQuery(CudaContext::of(device).stream());
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // else the next launch would report it
    return false;
  }
  check_cuda(code, "cudaStreamQuery");
  return true;
}

}  // namespace tasuki

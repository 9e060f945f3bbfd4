#include "tasuki/tensor/step_block.hpp"

#include "tasuki/core/error.hpp"

namespace tasuki {

StepBlock::Field StepBlock::reserve(std::int64_t count, DType dtype) {
  constexpr std::int64_t alignment = 16;  // bytes
  TASUKI_CHECK(!host_, "room in a step's block was asked for when the block was in use already");
  TASUKI_CHECK(count >= 0, "room for {} values in a step's block", count);
  const Field field{bytes_, count, dtype};
  const std::int64_t size = count * static_cast<std::int64_t>(size_of(dtype));
  bytes_ += (size + alignment - 1) / alignment * alignment;
  return field;
}

Tensor StepBlock::view(const Tensor& memory, const Field& field) {
  return {memory.storage(), static_cast<std::size_t>(field.offset), {field.count}, field.dtype};
}

const Tensor& StepBlock::host_memory() {
  if (!host_) host_ = Tensor::zeros({bytes_}, DType::uint8);
  return host_;
}

const Tensor& StepBlock::device_memory() {
  if (!on_device_) on_device_ = host_memory().to(device_);
  return on_device_;
}

void StepBlock::send() {
  if (device_.is_cpu() || bytes_ == 0) return;
  if (on_device_)
    on_device_.copy_from(host_memory());
  else
    device_memory();
}

}  // namespace tasuki

#include "tensor/tensor.hpp"

#include <cstring>

#include "tensor/backend.hpp"

namespace tasuki {
namespace {

// The backend that can copy bytes between these two.
Backend& mover(const Tensor& a, const Tensor& b) {
  return backend(a.device().is_cpu() ? b.device() : a.device());
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, std::size_t offset, const Shape& shape,
               DType dtype, std::shared_ptr<const Layout> layout)
    : storage_(std::move(storage)),
      offset_(offset),
      shape_(shape),
      dtype_(dtype),
      layout_(std::move(layout)) {
  TASUKI_CHECK(storage_ && (layout_ || offset_ + bytes() <= storage_->bytes()),
               "a tensor of shape {} and type {} at byte {} does not fit its memory", shape_.text(),
               name_of(dtype_), offset_);
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  return {backend(device).allocate(bytes, device), 0, shape, dtype};
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor made = empty(shape, dtype, device);
  made.fill(value);
  return made;
}

Tensor Tensor::plain() const {
  if (is_plain()) return *this;
  Tensor made = empty(shape_, dtype_, device());
  made.copy_from(*this);
  return made;
}

void Tensor::check_elements(DType wanted) const {
  TASUKI_CHECK(dtype_ == wanted, "tensor of {} read as {}", name_of(dtype_), name_of(wanted));
  TASUKI_CHECK(is_plain(),
               "elements of a tensor in a backend's layout were asked for; call plain() first");
}

double Tensor::item() const {
  TASUKI_CHECK(count() == 1, "item() of a tensor of shape {}", shape_.text());
  const Tensor host = plain().to(Device::cpu()).to(DType::float64);
  return *host.data<double>();
}

Tensor Tensor::reshape(const Shape& shape) const {
  TASUKI_CHECK(shape.count() == count(), "cannot reshape {} to {}: the number of elements differs",
               shape_.text(), shape.text());
  const Tensor source = plain();
  return {source.storage_, source.offset_, shape, dtype_};
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  TASUKI_CHECK(is_plain() && shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0],
               "cannot take items [{}, {}) of a tensor of shape {}", begin, end, shape_.text());
  const auto item_bytes = static_cast<std::size_t>(shape_.count_per_item()) * size_of(dtype_);
  return {storage_, offset_ + static_cast<std::size_t>(begin) * item_bytes,
          shape_.with_items(end - begin), dtype_};
}

Tensor Tensor::clone() const {
  Tensor made = empty(shape_, dtype_, device());
  made.copy_from(*this);
  return made;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor made = empty(shape_, dtype_, device);
  made.copy_from(*this);
  return made;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor made = empty(shape_, dtype, device());
  made.copy_from(*this);
  return made;
}

void Tensor::copy_from(const Tensor& source) const {
  TASUKI_CHECK(source.shape_ == shape_, "cannot copy a tensor of shape {} into one of shape {}",
               source.shape_.text(), shape_.text());
  mover(*this, source).copy(*this, source);
}

void Tensor::fill(double value) const {
  backend(device()).fill(*this, value);
}

void Tensor::copy_from_host(const void* values, std::size_t bytes) const {
  TASUKI_CHECK(bytes == this->bytes(), "{} bytes of values for a tensor of shape {} and type {}",
               bytes, shape_.text(), name_of(dtype_));
  if (bytes > 0) std::memcpy(raw(), values, bytes);
}

}  // namespace tasuki

// Tensor: an array with a shape and an element type, over reference-counted memory of one device.
// Copying a Tensor shares its memory; `clone` copies it. `const` is shallow: the values of a const
// Tensor can change.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/error.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"
#include "tensor/storage.hpp"

namespace tasuki {

// A backend's own order of elements (oneDNN's blocked formats, NHWC). Only activations and their
// gradients ever have one; parameters, gradients in arenas and everything that is communicated or
// stored are plain.
struct Layout {
  virtual ~Layout() = default;
};

class Tensor {
 public:
  Tensor() = default;
  // A view of `storage` from byte `offset` on; plain row-major unless a layout is given.
  Tensor(std::shared_ptr<Storage> storage, std::size_t offset, const Shape& shape, DType dtype,
         std::shared_ptr<const Layout> layout = nullptr);

  // New memory with undefined contents.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32,
                      Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32,
                      Device device = Device::cpu());
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32,
                     Device device = Device::cpu());
  // Host memory with a copy of these values.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    Tensor made = empty(shape, dtype_of<T>);
    made.copy_from_host(values.data(), values.size_bytes());
    return made;
  }

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : Device::cpu(); }
  std::int64_t count() const { return shape_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::size_t offset() const { return offset_; }

  // nullptr for plain row-major order.
  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  bool is_plain() const { return layout_ == nullptr; }
  // The same values in plain order; shares memory if they are in plain order already.
  Tensor plain() const;

  void* raw() const {
    return storage_ ? static_cast<std::byte*>(storage_->data()) + offset_ : nullptr;
  }
  // Pointer to the elements, in the memory of the tensor's device; the host may use it only for
  // tensors of the CPU. Fails unless the tensor is in plain order and its type is T.
  template <class T>
  T* data() const {
    if (dtype_ != dtype_of<T> || !is_plain()) [[unlikely]]
      check_elements(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(count())};
  }
  // Value of a tensor with one element, from any device, as double.
  double item() const;

  // Shares memory if the tensor is in plain order, else a copy in plain order.
  Tensor reshape(const Shape& shape) const;
  // Items [begin, end) along axis 0, which share memory. The tensor must be in plain order.
  Tensor slice(std::int64_t begin, std::int64_t end) const;

  Tensor clone() const;
  // The same values on another device or as another type.
  Tensor to(Device device) const;
  Tensor to(DType dtype) const;
  // Copies values of the same shape into this tensor, from any device, type and layout.
  void copy_from(const Tensor& source) const;
  void fill(double value) const;

 private:
  void check_elements(DType wanted) const;
  void copy_from_host(const void* values, std::size_t bytes) const;

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::float32;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace tasuki

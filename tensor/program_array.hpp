// Arrays in memory that belongs to the program: read where they lie, never copied as a whole.
#pragma once

#include <span>

#include "tensor/strided_loop.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// A tensor over the program's memory, row-major; its values are those of the memory at any time.
// The memory must outlive all tensors that share it (graphs and batches included), and Tasuki never
// frees it. Functions do not change their inputs, so memory that is only read may be const;
// operations in place, such as allreduce, must not be given such a tensor.
template <class T>
Tensor tensor_over(const T* data, const Shape& shape);

// A read-only view of numbers in the program's memory, in any order: axes may be transposed, cut
// out of larger ones (the inside of an array with ghost cells), or overlap (sliding windows).
struct ProgramArray {
  const void* data = nullptr;  // of element (0, 0, ...)
  DType dtype = DType::float32;
  Shape shape{};
  Strides strides{};  // elements from a value to the next one along each axis

  ProgramArray() = default;
  // Row-major.
  template <class T>
  ProgramArray(const T* data, const Shape& shape)
      : data(data), dtype(dtype_of<T>), shape(shape), strides(plain_strides(shape)) {}
  // One stride for each axis; a usage error otherwise. Negative ones go backward.
  template <class T>
  ProgramArray(const T* data, const Shape& shape, std::initializer_list<std::int64_t> strides)
      : ProgramArray(data, shape) {
    set_strides({strides.begin(), strides.size()});
  }

  bool is_plain() const { return StridedLoop<1>(shape, {strides}).is_plain(0); }
  // The values in new memory, row-major.
  Tensor copy() const;

 private:
  void set_strides(std::span<const std::int64_t> given);
};

// Copies elements [begin, end) of the walk over an array, whose elements have `bytes` bytes each,
// one after the other.
void gather_bytes(const StridedLoop<1>& walk, const void* data, std::size_t bytes,
                  std::int64_t begin, std::int64_t end, std::byte* to);

// Memory that is not owned, on the CPU.
std::shared_ptr<Storage> borrowed_storage(const void* data, std::size_t bytes);

template <class T>
Tensor tensor_over(const T* data, const Shape& shape) {
  return {borrowed_storage(data, static_cast<std::size_t>(shape.count()) * sizeof(T)), 0, shape,
          dtype_of<T>};
}

}  // namespace tasuki

#include "communicator/packed_arrays.hpp"

#include "core/error.hpp"

namespace tasuki {
namespace {

// copy(an array, its part of `packed`), both with one axis.
template <class Copy>
void each_part(const Tensor& packed, std::span<const Tensor> arrays, const Copy& copy) {
  std::int64_t begin = 0;
  for (const Tensor& array : arrays) {
    copy(array.reshape({array.count()}), packed.slice(begin, begin + array.count()));
    begin += array.count();
  }
}

}  // namespace

Tensor pack(std::span<const Tensor> arrays) {
  TASUKI_CHECK(!arrays.empty(), "pack() of no arrays");
  std::int64_t count = 0;
  for (const Tensor& array : arrays) count += array.count();
  Tensor packed = Tensor::empty({count}, arrays.front().dtype(), arrays.front().device());
  each_part(packed, arrays, [](const Tensor& array, const Tensor& part) { part.copy_from(array); });
  return packed;
}

void unpack(const Tensor& packed, std::span<const Tensor> arrays) {
  each_part(packed, arrays, [](const Tensor& array, const Tensor& part) { array.copy_from(part); });
}

}  // namespace tasuki

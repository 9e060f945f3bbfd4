#include "tensor/program_array.hpp"

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"
#include "tensor/cpu/strided.hpp"

namespace tasuki {

std::shared_ptr<Storage> borrowed_storage(const void* data, std::size_t bytes) {
  TASUKI_CHECK(data != nullptr || bytes == 0, "a tensor of {} bytes over no memory", bytes);
  return std::make_shared<Storage>(const_cast<void*>(data), bytes, Device::cpu(),
                                   Storage::Release());
}

void ProgramArray::set_strides(std::span<const std::int64_t> given) {
  if (std::ssize(given) != shape.rank())
    fail(ErrorKind::usage, "an array of shape {}: expected {} strides, found {}", shape.text(),
         shape.rank(), given.size());
  strides = {};
  std::ranges::copy(given, strides.begin());
}

void gather_bytes(const StridedLoop<1>& walk, const void* data, std::size_t bytes,
                  std::int64_t begin, std::int64_t end, std::byte* to) {
  const auto gather = [&]<class Word>(Word* words) {
    gather_elements(walk, static_cast<const Word*>(data), begin, end - begin, words);
  };
  switch (bytes) {
    case 1:
      return gather(reinterpret_cast<std::uint8_t*>(to));
    case 2:
      return gather(reinterpret_cast<std::uint16_t*>(to));
    case 4:
      return gather(reinterpret_cast<std::uint32_t*>(to));
    default:
      TASUKI_CHECK(bytes == 8, "elements of {} bytes", bytes);
      return gather(reinterpret_cast<std::uint64_t*>(to));
  }
}

Tensor ProgramArray::copy() const {
  Tensor made = Tensor::empty(shape, dtype);
  gather_bytes({shape, {strides}}, data, size_of(dtype), 0, shape.count(),
               static_cast<std::byte*>(made.raw()));
  return made;
}

}  // namespace tasuki

#include "communicator/packed_arrays.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace tasuki {
namespace {

bool are_alike(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.device() == b.device();
}

// copy(an array, its part of `packed`), both with one axis.
template <class Copy>
void each_part(const Tensor& packed, const std::vector<Tensor>& arrays, const Copy& copy) {
  std::int64_t begin = 0;
  for (const Tensor& array : arrays) {
    copy(array.reshape({array.count()}), packed.slice(begin, begin + array.count()));
    begin += array.count();
  }
}

void combine_alike(const std::vector<Tensor>& arrays,
                   const std::function<void(const Tensor& packed)>& combine) {
  std::int64_t count = 0;
  for (const Tensor& array : arrays) count += array.count();
  const Tensor packed = Tensor::empty({count}, arrays[0].dtype(), arrays[0].device());
  each_part(packed, arrays, [](const Tensor& array, const Tensor& part) { part.copy_from(array); });
  combine(packed);
  each_part(packed, arrays, [](const Tensor& array, const Tensor& part) { array.copy_from(part); });
}

}  // namespace

void combine_packed(std::span<const Tensor> arrays,
                    const std::function<void(const Tensor& packed)>& combine) {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& array : arrays) {
    TASUKI_CHECK(array.is_plain(), "combine_packed() of a {} that is not plain",
                 array.shape().text());
    const auto group = std::ranges::find_if(
        groups, [&](const std::vector<Tensor>& each) { return are_alike(each[0], array); });
    if (group == groups.end())
      groups.push_back({array});
    else
      group->push_back(array);
  }
  for (const std::vector<Tensor>& group : groups) combine_alike(group, combine);
}

}  // namespace tasuki

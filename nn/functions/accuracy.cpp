#include "tasuki/nn/functions/accuracy.hpp"

#include <algorithm>
#include <limits>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

Tensor count_correct(const Variable& x, const Tensor& t) {
  return backend(x.value().device()).count_correct(x.value(), t);
}

double accuracy(const Variable& x, const Tensor& t) {
  const Tensor labels = t.to(Device::cpu()).to(DType::int64);
  const auto values = labels.span<std::int64_t>();
  const auto counted = std::ranges::count_if(values, [](std::int64_t label) { return label >= 0; });
  if (counted == 0) return std::numeric_limits<double>::quiet_NaN();
  return count_correct(x, t).item() / static_cast<double>(counted);
}

}  // namespace tasuki

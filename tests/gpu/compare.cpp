#include "compare.hpp"

#include <cmath>
#include <limits>

namespace tasuki::testing {

double relative_distance(const Tensor& found, const Tensor& expected) {
  const auto on_host = [](const Tensor& x) {
    return x.plain().to(Device::cpu()).to(DType::float64);
  };
  const Tensor a = on_host(found), b = on_host(expected);
  double apart = 0, norm = 0;
  for (std::int64_t i = 0; i < b.count(); ++i) {
    const double left = a.data<double>()[i], right = b.data<double>()[i];
    apart += (left - right) * (left - right);
    norm += right * right;
  }
  if (!std::isfinite(apart) || !std::isfinite(norm)) return std::numeric_limits<double>::infinity();
  return std::sqrt(norm > 0 ? apart / norm : apart);
}

::testing::AssertionResult agree(const Results& found, const Results& expected, double tolerance) {
  if (found.size() != expected.size())
    return ::testing::AssertionFailure()
           << found.size() << " results instead of " << expected.size();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Result &left = found[i], &right = expected[i];
    if (left.name != right.name || left.value.shape() != right.value.shape())
      return ::testing::AssertionFailure()
             << left.name << " of " << left.value.shape().text() << " instead of " << right.name
             << " of " << right.value.shape().text();
    const double distance = relative_distance(left.value, right.value);
    if (!(distance <= tolerance))
      return ::testing::AssertionFailure() << left.name << " of " << left.value.shape().text()
                                           << " is " << distance << " apart, allowed " << tolerance;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tasuki::testing

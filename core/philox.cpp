#include "core/philox.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace tasuki {

float RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // (0, 1], so that the logarithm is finite.
  const double u = 1.0 - static_cast<double>(uniform());
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(uniform());
  const double radius = std::sqrt(-2.0 * std::log(u));
  spare_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

std::vector<std::int64_t> permutation(std::int64_t n, RandomStream stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  return order;
}

}  // namespace tasuki

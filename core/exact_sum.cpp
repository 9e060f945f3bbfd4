#include "core/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tasuki {

void ExactSum::add(double value) {
  if (!parts_.empty() && !std::isfinite(parts_.front())) {
    parts_.front() += std::isfinite(value) ? 0 : value;
    return;
  }
  std::size_t kept = 0;
  for (double part : parts_) {
    if (std::abs(value) < std::abs(part)) std::swap(value, part);
    const double sum = value + part;
    const double lost = part - (sum - value);
    if (lost != 0) parts_[kept++] = lost;
    value = sum;
  }
  parts_.resize(kept);
  if (!std::isfinite(value)) parts_.clear();
  if (value != 0) parts_.push_back(value);
}

void ExactSum::add(const ExactSum& other) {
  // A copy, because `other` may be this object.
  const std::vector<double> parts = other.parts_;
  for (const double part : parts) add(part);
}

// From the largest part down, until a part changes nothing. What follows then decides a tie.
double ExactSum::value() const {
  if (parts_.empty()) return 0;
  auto part = parts_.rbegin();
  double sum = *part++;
  double lost = 0;
  for (; part != parts_.rend() && lost == 0; ++part) {
    const double before = sum;
    sum = before + *part;
    lost = *part - (sum - before);
  }
  if (part != parts_.rend() && ((lost < 0 && *part < 0) || (lost > 0 && *part > 0))) {
    const double doubled = 2 * lost, next = sum + doubled;
    if (doubled == next - sum) sum = next;
  }
  return sum;
}

}  // namespace tasuki

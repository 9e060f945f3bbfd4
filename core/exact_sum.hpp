// ExactSum: a sum of doubles whose value does not depend on their order.
//
// Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates",
// Discrete & Computational Geometry 18, 1997: the exact sum is kept as a few doubles that do not
// overlap. As in Python's math.fsum, value() is that sum rounded once, to nearest even.
#pragma once

#include <span>
#include <vector>

namespace tasuki {

class ExactSum {
 public:
  ExactSum() = default;
  explicit ExactSum(double value) { add(value); }

  // Exact unless the sum overflows.
  void add(double value);
  void add(const ExactSum& other);
  // NaN or infinity if such a number was added, as their sum would be.
  double value() const;
  // Numbers whose sum is exactly this one; they may be added to another ExactSum.
  std::span<const double> parts() const { return parts_; }

 private:
  // Ascending by magnitude, without zeros; one number that is not finite makes it the only one.
  std::vector<double> parts_;
};

}  // namespace tasuki

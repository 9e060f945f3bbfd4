#include "optimizer/unit_order.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki {

void UnitOrder::add(std::size_t unit, bool in_backward) {
  TASUKI_CHECK(!is_known_ && unit < uses_.size(), "unit {} of {}", unit, uses_.size());
  constexpr int most_forward = 1, most_backward = 2;
  Uses& uses = uses_[unit];
  if (in_backward)
    uses.stays |= ++uses.backward > most_backward;
  else
    uses.stays |= ++uses.forward > most_forward;
  units_.push_back(unit);
}

void UnitOrder::finish() {
  std::vector<std::size_t> order;
  for (const std::size_t unit : units_) {
    const bool is_here =
        stays(unit) ? std::ranges::count(order, unit) > 0 : !order.empty() && order.back() == unit;
    if (!is_here) order.push_back(unit);
  }
  units_ = std::move(order);
  is_known_ = true;
}

std::optional<std::size_t> UnitOrder::find(std::size_t unit, std::size_t from) const {
  const auto found =
      std::find(units_.begin() + static_cast<std::ptrdiff_t>(std::min(from, units_.size())),
                units_.end(), unit);
  if (found == units_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - units_.begin());
}

}  // namespace tasuki

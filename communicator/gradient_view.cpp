#include "communicator/gradient_view.hpp"

#include <algorithm>

namespace tasuki {

Range GradientView::needed_by(int rank) const {
  const Range of_rank = needed[static_cast<std::size_t>(rank)];
  const auto place = [this](std::int64_t element) {
    return std::clamp<std::int64_t>(element - first, 0, arena.count());
  };
  return {place(of_rank.begin), place(of_rank.end)};
}

std::int64_t GradientView::divided() const {
  std::int64_t end = 0;
  for (const Range& of_rank : needed) end = std::max(end, of_rank.end);
  return std::clamp<std::int64_t>(end - first, 0, arena.count());
}

bool GradientView::is_scattered() const {
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < needed.size(); ++rank) {
    const Range part = needed_by(static_cast<int>(rank));
    if (part.begin != end) return false;
    end = part.end;
  }
  return !needed.empty() && end == divided();
}

}  // namespace tasuki

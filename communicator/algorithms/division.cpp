#include "communicator/algorithms/division.hpp"

#include <algorithm>

namespace tasuki {

void Division::append_to_part(int rank, Range elements) {
  if (elements.size() == 0) return;
  std::vector<Range>& own = parts[static_cast<std::size_t>(rank)];
  if (!own.empty() && own.back().end == elements.begin)
    own.back().end = elements.end;
  else
    own.push_back(elements);
}

std::vector<std::int64_t> Division::key() const {
  std::vector<std::int64_t> key{common.begin, common.end, shards ? shards->tree.shards() : 0,
                                shards ? shards->stride : 0};
  for (const std::vector<Range>& part : parts) {
    key.push_back(std::ssize(part));
    for (const Range& range : part) key.insert(key.end(), {range.begin, range.end});
  }
  return key;
}

Division division_of(const GradientView& gradients, std::int64_t first, std::int64_t count,
                     int groups, const std::function<int(int)>& group_of) {
  Division division(count);
  if (gradients.shards)
    division.shards = gradients.shards->added_up(static_cast<std::size_t>(groups), group_of);
  if (!gradients.is_scattered()) return division;
  const auto from_first = [&](std::int64_t element) {
    return std::clamp<std::int64_t>(element - first, 0, count);
  };
  division.parts.resize(static_cast<std::size_t>(groups));
  for (int rank = 0; rank < static_cast<int>(gradients.needed.size()); ++rank) {
    const Range needed = gradients.needed_by(rank);
    if (const int group = group_of(rank); group >= 0)
      division.append_to_part(group, {from_first(needed.begin), from_first(needed.end)});
  }
  division.common.begin = from_first(gradients.divided());
  return division;
}

}  // namespace tasuki

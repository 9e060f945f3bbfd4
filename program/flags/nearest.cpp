#include "program/flags/nearest.hpp"

#include <algorithm>
#include <vector>

namespace tasuki::program {

namespace {

// The distances of `a` from all prefixes of `b`, the empty one first.
std::vector<int> distances_from_prefixes(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table of distances between prefixes.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substitution, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  return distances_from_prefixes(a, b).back();
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t shortest_abbreviation = 3;
  std::string best;
  const int length = static_cast<int>(name.size());
  int best_distance = std::min(std::max(2, length / 3) + 1, length);  // something must match
  for (const std::string& candidate : candidates) {
    const std::vector<int> distances = distances_from_prefixes(name, candidate);
    int distance = distances.back();
    if (name.size() >= shortest_abbreviation) {
      const int slips = *std::ranges::min_element(distances);
      distance = slips == 0 ? 0 : std::min(distance, slips + 1);
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tasuki::program

#include "core/range.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki {

Range part_of(std::int64_t n, std::int64_t parts, std::int64_t i) {
  TASUKI_CHECK(n >= 0 && parts > 0 && 0 <= i && i < parts, "part {} of {} of {} items", i, parts,
               n);
  const std::int64_t size = n / parts, longer = n % parts;
  const std::int64_t begin = i * size + std::min(i, longer);
  return {begin, begin + size + (i < longer ? 1 : 0)};
}

}  // namespace tasuki

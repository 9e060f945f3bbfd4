// Walks of arrays with strides, on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/strided_loop.hpp"

namespace tasuki {

// Position of an element in nested loops, and where each array has it.
template <int arrays>
class StridedPosition {
 public:
  StridedPosition(const StridedLoop<arrays>& loop, std::int64_t element) : loop_(loop) {
    for (int axis = loop.rank; axis-- > 0; element /= loop.sizes[axis]) {
      digits_[axis] = element % loop.sizes[axis];
      for (int a = 0; a < arrays; ++a) offsets_[a] += digits_[axis] * loop.strides[a][axis];
    }
  }

  std::int64_t offset(int array) const { return offsets_[array]; }
  // Elements from here to the end of the innermost loop.
  std::int64_t run() const { return loop_.sizes[loop_.rank - 1] - digits_[loop_.rank - 1]; }
  // Moves on by at most run() elements.
  void advance(std::int64_t elements) {
    int axis = loop_.rank - 1;
    digits_[axis] += elements;
    for (int a = 0; a < arrays; ++a) offsets_[a] += elements * loop_.strides[a][axis];
    while (axis > 0 && digits_[axis] == loop_.sizes[axis]) {
      for (int a = 0; a < arrays; ++a)
        offsets_[a] += loop_.strides[a][axis - 1] - digits_[axis] * loop_.strides[a][axis];
      digits_[axis--] = 0;
      ++digits_[axis];
    }
  }

 private:
  const StridedLoop<arrays>& loop_;
  std::int64_t digits_[Shape::max_rank] = {};
  std::int64_t offsets_[arrays] = {};
};

// Elements [begin, begin + count) of a walk, one after the other.
template <class T>
void gather_elements(const StridedLoop<1>& loop, const T* source, std::int64_t begin,
                     std::int64_t count, T* to) {
  StridedPosition<1> position(loop, begin);
  const std::int64_t step = loop.strides[0][loop.rank - 1];
  while (count > 0) {
    const std::int64_t run = std::min(count, position.run());
    const T* const from = source + position.offset(0);
    if (step == 1)
      std::copy_n(from, run, to);
    else if (step == 0)
      std::fill_n(to, run, *from);
    else
      for (std::int64_t i = 0; i < run; ++i) to[i] = from[i * step];
    position.advance(run);
    to += run;
    count -= run;
  }
}

}  // namespace tasuki

// Narrowing that cannot lose a value silently, for counts that go into MPI, file formats, oneDNN.
#pragma once

#include <utility>

#include "core/error.hpp"

namespace tasuki {

// `value` as To; throws an internal error naming `what` if To cannot hold it.
template <class To, class From>
To checked_cast(From value, const char* what) {
  TASUKI_CHECK(std::in_range<To>(value), "{} = {} does not fit into {} bits", what, value,
               sizeof(To) * 8);
  return static_cast<To>(value);
}

}  // namespace tasuki

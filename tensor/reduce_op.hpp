// Operations that combine values of several ranks or arrays.
#pragma once

namespace tasuki {

enum class ReduceOp { sum, max, min, prod };

constexpr const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::prod:
      return "prod";
  }
  return "";
}

}  // namespace tasuki

// The element types that functions compute with.
#pragma once

#include "core/error.hpp"
#include "nn/variable.hpp"

namespace tasuki {

// Throws Error unless x has float32, float16 or bfloat16; `what` names the function.
inline void check_operand_type(const char* what, const Variable& x) {
  const DType type = x.value().dtype();
  TASUKI_CHECK(type == DType::float32 || size_of(type) == 2,
               "{}: {} of {} has no arithmetic; convert it to float32", what, name_of(type),
               x.shape().text());
}

}  // namespace tasuki

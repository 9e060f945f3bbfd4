// The type of activations, as the last argument of programs here.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::bench {

inline DType number_type(std::string_view name) {
  if (name == "float32") return DType::float32;
  if (name == "bfloat16") return DType::bfloat16;
  fail(ErrorKind::usage, "a number type `{}`; give float32 or bfloat16", name);
}

}  // namespace tasuki::bench

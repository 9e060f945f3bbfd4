// Makes functions of single elements differentiable.
#pragma once

#include "nn/variable.hpp"
#include "tensor/elementwise_operations.hpp"

namespace tasuki {

// f of x with the settings p and q; `name`: the function's in errors, text that lives on.
Variable mapped(const char* name, Map f, const Variable& x, float p = 0, float q = 0);

}  // namespace tasuki

// Kernels that move vectors with the helpers of the backend's.
#pragma once

#include "tensor/cuda/launch.hpp"

namespace tasuki::testing {

enum class Vector { pack, four_halves, two_floats };

// One thread copies one vector.
void copy_vector(const Launch& launch, Vector vector, void* to, const void* from);

}  // namespace tasuki::testing

// Which of cuBLASLt's algorithms computes a product.
#pragma once

#include "tasuki/tensor/cuda/matmul.hpp"

namespace tasuki {

// The one that its heuristic names first; with key.is_timed the fastest of those that it names,
// tried on the product's operands (its results are not touched). Those that add the bias or sum the
// rows themselves come before those that do not. An Error where there is none.
MatmulAlgorithms::Choice choose_matmul(CudaContext& context, const MatrixProduct& product,
                                       const MatmulKey& key);

}  // namespace tasuki

// Which of cuBLASLt's algorithms compute a product.
#pragma once

#include <vector>

#include "tasuki/tensor/cuda/matmul.hpp"

namespace tasuki {

// In the order of its heuristic; with key.is_timed the fastest first, tried on the product's
// operands (its results are not touched). Those that add the bias or sum the rows themselves come
// before those that do not. An Error where there is none.
std::vector<MatmulAlgorithms::Choice> choose_matmul(CudaContext& context,
                                                    const MatrixProduct& product,
                                                    const MatmulKey& key);

}  // namespace tasuki

// Chooses among cuBLASLt's algorithms for a product.
#pragma once

#include <vector>

#include "tensor/cuda/matmul.hpp"

namespace tasuki {

// In the order of its heuristic; with key.is_timed the fastest first, tried on the product's
// operands (its results are not touched). Algorithms that add the bias or sum the rows come before
// the others. An Error if there is none.
std::vector<MatmulAlgorithms::Choice> choose_matmul(CudaContext& context,
                                                    const MatrixProduct& product,
                                                    const MatmulKey& key);

}  // namespace tasuki

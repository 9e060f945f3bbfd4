// Local response normalisation by oneDNN, which keeps blocked layouts (image_operations.hpp).
#pragma once

#include "tensor/image_operations.hpp"

namespace tasuki {

Tensor cpu_response_norm(const Tensor& x, const ResponseNormOptions& options,
                         std::shared_ptr<Workspace>* workspace);
Tensor cpu_response_norm_backward(const Tensor& x, const Tensor& dy,
                                  const ResponseNormOptions& options, const Workspace& workspace);

}  // namespace tasuki

// GELU in the end of a product, by cuBLASLt's epilogue CUBLASLT_EPILOGUE_GELU_AUX_BIAS. Its
// documentation does not say which GELU that is, or what it makes of infinities and NaN, so
// products whose results are known are computed first.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"

namespace tasuki {

class CudaContext;
struct MatrixProduct;

// What the epilogue computes on one device; thread-safe.
class GeluEpilogues {
 public:
  // Map::gelu or Map::gelu_tanh, for operands and results of this type; std::nullopt if it is
  // neither. Found out at the first call, and not in a recording, which has std::nullopt until
  // then.
  std::optional<Map> form(CudaContext& context, DType type, bool tf32);

 private:
  std::mutex mutex_;
  std::map<std::pair<DType, bool>, std::optional<Map>> known_;
};

// Whether the epilogue computes what a product with MatrixProduct::before is to compute: it has a
// bias, rows of a multiple of 8 values, and the epilogue's form of GELU.
bool has_gelu_epilogue(CudaContext& context, const MatrixProduct& product);

}  // namespace tasuki

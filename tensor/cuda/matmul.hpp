// Matrix products by cuBLASLt, with the algorithm that its heuristic names first for a shape.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

class CudaContext;

// Row-major c (m x n) = op(a) op(b) + beta c; with a bias (n float32 values) c = op(a) op(b) +
// bias, and with relu max(0, that). Computed in float32 (TF32 where that is allowed).
struct MatrixProduct {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  // none of them 0
  DType operands = DType::float32;   // type of a and b
  DType result = DType::float32;     // type of c
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  float beta = 0;
  const float* bias = nullptr;
  bool relu = false;
};

// What an algorithm depends on.
struct MatmulKey {
  std::int64_t m = 0, n = 0, k = 0;
  std::uint32_t alignment_a = 1, alignment_b = 1, alignment_c = 1;  // bytes, at most 256
  DType operands = DType::float32, result = DType::float32;
  bool transpose_a = false, transpose_b = false, adds = false, has_bias = false, relu = false;
  bool tf32 = false;

  MatmulKey(const MatrixProduct& product, bool tf32);
  friend bool operator==(const MatmulKey&, const MatmulKey&) = default;
};
struct MatmulKeyHash {
  std::size_t operator()(const MatmulKey& key) const noexcept;
};

// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* address);

// The algorithms chosen so far on one device; thread-safe.
class MatmulAlgorithms {
 public:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
    bool fuses_bias = false;  // else the bias is added by a kernel of its own
  };
  // Calls `choose` when the key is new.
  template <class Choose>
  Choice get(const MatmulKey& key, Choose&& choose) {
    const std::lock_guard lock(mutex_);
    const auto at = choices_.find(key);
    if (at != choices_.end()) return at->second;
    return choices_.emplace(key, choose()).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<MatmulKey, Choice, MatmulKeyHash> choices_;
};

void multiply(CudaContext& context, const MatrixProduct& product);

}  // namespace tasuki

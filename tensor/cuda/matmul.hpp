// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/cuda/algorithm_trials.hpp"
#include "tensor/cuda/handles.hpp"
#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"

namespace tasuki {

class CudaContext;

// Row-major c (m x n) = op(a) op(b) + beta c; with a bias (n values) that plus the bias. With relu
// c is max(0, this sum); with `before`, which then takes the sum, c is GELU of it. Computed in
// float32 (TF32 if allowed), partial sums included.
struct MatrixProduct {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  // all positive
  DType operands = DType::float32;   // type of a and b
  DType result = DType::float32;     // type of c
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  float beta = 0;
  const void* added = nullptr;  // takes the place of c in the sum, where beta is then 1
  const void* bias = nullptr;
  DType bias_type = DType::float32;  // or the type of c
  bool relu = false;
  void* before = nullptr;  // m x n of c's type; without beta and relu
  Map gelu = Map::gelu;    // or its approximation
  // m float32 values: the sums of op(a) over k, one of which is the gradient of a bias. With a
  // float32 result and without a bias.
  float* row_sums = nullptr;
  // So many products, without bias, row sums and GELU, whose matrices are so many elements apart.
  std::int64_t batch = 1, step_a = 0, step_b = 0, step_c = 0;

  bool adds_to_result() const { return beta != 0 && added == nullptr; }
  // Of all results.
  std::size_t result_bytes() const {
    return static_cast<std::size_t>((batch - 1) * step_c + m * n) * size_of(result);
  }
};

// Everything that an algorithm depends on.
struct MatmulKey {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1, step_a = 0, step_b = 0, step_c = 0;
  // Alignments in bytes, at most 256; `vector`: of the bias or the row sums.
  std::uint32_t alignment_a = 1, alignment_b = 1, alignment_c = 1, alignment_vector = 1;
  DType operands = DType::float32, result = DType::float32;
  bool transpose_a = false, transpose_b = false, adds = false, has_bias = false, relu = false;
  bool has_row_sums = false, tf32 = false;
  std::optional<Map> gelu;  // with MatrixProduct::before
  bool is_timed = false;    // affects how the algorithm is found

  MatmulKey(const MatrixProduct& product, bool allow_tf32, bool timed);
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
    // Whether it adds the bias (and computes GELU) or sums the rows. Otherwise a separate kernel is
    // needed; for GELU the choice has no algorithm, and multiply_before_gelu() takes its place.
    bool is_fused = false;
  };
  struct Known {
    std::vector<Choice> choices;  // best first
    AlgorithmTrials trials;
  };
  bool has(const MatmulKey& key) {
    const std::lock_guard lock(mutex_);
    return known_.contains(key);
  }
  // Calls `choose`, which returns choices and may compute other products, if the key is new.
  template <class Choose>
  Known& get(const MatmulKey& key, Choose&& choose) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) return *found->second;
    auto made = std::make_unique<Known>();
    made->choices = choose();
    return *(known_[key] = std::move(made));
  }

 private:
  std::recursive_mutex mutex_;  // of a thread that chooses, too
  std::unordered_map<MatmulKey, std::unique_ptr<Known>, MatmulKeyHash> known_;
};

// What products need on one device (CudaContext::matmul).
using CublasLt = CudaHandle<cublasLtHandle_t, &cublasLtDestroy>;
struct MatmulState {
  CublasLt cublaslt;
  MatmulAlgorithms algorithms{};
};

// As check_cuda() (check.hpp), for cuBLAS.
void check_cublas(cublasStatus_t code, const char* call);

// Returns whether row_sums, if requested, was written: not every type and shape has an algorithm
// that does it.
bool multiply(CudaContext& context, const MatrixProduct& product);

// Computes a product with GELU in two passes: the sum, then GELU.
void multiply_before_gelu(CudaContext& context, const MatrixProduct& product);

}  // namespace tasuki

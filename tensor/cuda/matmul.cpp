#include "tasuki/tensor/cuda/matmul.hpp"

#include <algorithm>
#include <bit>

#include "tasuki/core/cast.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/tensor/cuda/check.hpp"
#include "tasuki/tensor/cuda/context.hpp"
#include "tasuki/tensor/cuda/copy_kernels.hpp"
#include "tasuki/tensor/cuda/reduce_kernels.hpp"
#include "tasuki/tensor/cuda_settings.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {
namespace {

// What NVIDIA advises for Hopper; earlier devices need less.
constexpr std::size_t largest_workspace = std::size_t{32} << 20;

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::float32:
      return CUDA_R_32F;
    case DType::float16:
      return CUDA_R_16F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    default:
      fail(ErrorKind::internal, "a matrix product of {} values", name_of(type));
  }
}

// cuBLASLt's description of a product. Its matrices are column-major, in which our row-major ones
// appear transposed: it is asked for c^T = op(b)^T op(a)^T, so its first operand is b, and the rows
// of its result, to which a bias belongs, are our columns.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;

  Description(const MatrixProduct& p, bool tf32, bool fuse_bias) {
    const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescInit(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (fuse_bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE,
          p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    } else if (p.relu && p.bias == nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
    }
    init(first, p.operands, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k);
    init(second, p.operands, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m);
    init(result, p.result, p.n, p.m);
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  }
  // A column-major matrix without gaps.
  static void init(cublasLtMatrixLayoutOpaque_t& layout, DType type, std::int64_t rows,
                   std::int64_t columns) {
    check_cublas(cublasLtMatrixLayoutInit(&layout, type_of(type), static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
                 "cublasLtMatrixLayoutInit");
  }
};

struct Preference {
  cublasLtMatmulPreferenceOpaque_t value;

  explicit Preference(const MatmulKey& key) {
    check_cublas(cublasLtMatmulPreferenceInit(&value), "cublasLtMatmulPreferenceInit");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::min(largest_workspace, cuda_settings().workspace_limit));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment_b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment_a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment_c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment_c);
  }
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, Value setting) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(&value, attribute, &setting, sizeof(setting)),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
};

MatmulAlgorithms::Choice choose(CudaContext& context, const MatrixProduct& p,
                                const MatmulKey& key) {
  Preference preference(key);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  // Not every type and shape has an algorithm that adds the bias itself.
  for (const bool fuse_bias : {true, false}) {
    if (fuse_bias && !key.has_bias) continue;
    Description description(p, key.tf32, fuse_bias);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(
        context.cublaslt(), &description.operation, &description.first, &description.second,
        &description.result, &description.result, &preference.value, 1, &found, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count > 0) status = found.state;
    if (status == CUBLAS_STATUS_SUCCESS && count > 0)
      return {found.algo, found.workspaceSize, fuse_bias};
  }
  fail(ErrorKind::unavailable, "cuBLASLt has no algorithm for a product {}x{}x{} of {} as {}: {}",
       p.m, p.n, p.k, name_of(p.operands), name_of(p.result),
       cublasLtGetStatusName(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED
                                                             : status));
}

}  // namespace

std::uint32_t alignment_of(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return number == 0 ? 256 : 1U << std::min(std::countr_zero(number), 8);
}

MatmulKey::MatmulKey(const MatrixProduct& product, bool allow_tf32)
    : m(product.m),
      n(product.n),
      k(product.k),
      alignment_a(alignment_of(product.a)),
      alignment_b(alignment_of(product.b)),
      alignment_c(alignment_of(product.c)),
      operands(product.operands),
      result(product.result),
      transpose_a(product.transpose_a),
      transpose_b(product.transpose_b),
      adds(product.beta != 0),
      has_bias(product.bias != nullptr),
      relu(product.relu),
      tf32(allow_tf32 && product.operands == DType::float32) {}

std::size_t MatmulKeyHash::operator()(const MatmulKey& key) const noexcept {
  std::size_t hash = 0;
  const auto mix = [&hash](std::size_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  };
  for (const std::int64_t size : {key.m, key.n, key.k}) mix(static_cast<std::size_t>(size));
  for (const std::uint32_t alignment : {key.alignment_a, key.alignment_b, key.alignment_c})
    mix(alignment);
  std::size_t flags = 0;
  for (const bool flag :
       {key.transpose_a, key.transpose_b, key.adds, key.has_bias, key.relu, key.tf32})
    flags = 2 * flags + (flag ? 1 : 0);
  mix(flags + (static_cast<std::size_t>(key.operands) << 16) +
      (static_cast<std::size_t>(key.result) << 24));
  return hash;
}

void multiply(CudaContext& context, const MatrixProduct& product) {
  MatrixProduct p = product;
  // A bias that cuBLASLt adds has the type of the result.
  Tensor narrow_bias;
  const MatmulKey key(p, cuda_settings().allow_tf32);
  const MatmulAlgorithms::Choice choice =
      context.matmul_algorithms().get(key, [&] { return choose(context, p, key); });
  const Launch launch = context.launch();
  if (choice.fuses_bias && p.result != DType::float32) {
    narrow_bias = Tensor::empty({p.n}, p.result, context.device());
    kernels::convert(launch, p.result, narrow_bias.raw(), DType::float32, p.bias, p.n);
    check_launch("convert");
    p.bias = static_cast<const float*>(narrow_bias.raw());
  }
  const bool separate_bias = p.bias != nullptr && !choice.fuses_bias;
  Description description(p, key.tf32, choice.fuses_bias);
  const std::shared_ptr<Storage> workspace =
      choice.workspace > 0 ? context.allocate(choice.workspace) : nullptr;
  const float one = 1;
  check_cublas(
      cublasLtMatmul(context.cublaslt(), &description.operation, &one, p.b, &description.first, p.a,
                     &description.second, &p.beta, p.c, &description.result, p.c,
                     &description.result, &choice.algorithm,
                     workspace ? workspace->data() : nullptr, choice.workspace, launch.stream),
      "cublasLtMatmul");
  if (!separate_bias) return;
  kernels::add_bias(launch, p.result, p.c, p.bias, p.m, p.n, p.relu);
  check_launch("bias");
}

}  // namespace tasuki

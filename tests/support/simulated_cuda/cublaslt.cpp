// cuBLASLt's matrix product as its documentation defines it, element by element: column-major
// matrices, D = epilogue(alpha op(A) op(B) + beta C).
//
// Which GELU there is its documentation does not say, so a test says it in the environment:
//
//   SIMULATED_CUBLASLT_GELU=FORM
//
// FORM: `tanh` (if nothing is said), `erf`, `mixed` (by erf with algorithm 1), `erf_if_wide` (from
// 64 values a row on), `lost_nan` (by tanh, and NaN becomes 0), `infinite_nan` (by tanh, and
// -infinity becomes NaN), `wrong_input` (by tanh, and what is kept of before it is 0) or `slow` (by
// tanh, in seven operations' time).
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "queue.hpp"
#include "refusals.hpp"
#include "values.hpp"

namespace tasuki::simulated {
namespace {

struct Operation {
  bool is_tf32 = false;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int32_t bias_type = -1;  // D's
  void* aux = nullptr;          // ReLU's mask, a bit an element, or GELU's input of D's type
  std::int64_t aux_ld = 0;      // in bits or elements
};
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t));

struct Matrix {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t batch = 1;
  std::int64_t step = 0;  // between matrices of a batch

  ValueType values() const { return value_type(type); }
};
static_assert(sizeof(Matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t));

template <class T, class Opaque>
T& inside(Opaque* opaque) {
  return *reinterpret_cast<T*>(opaque);
}
template <class T, class Opaque>
const T& inside(const Opaque* opaque) {
  return *reinterpret_cast<const T*>(opaque);
}

bool has(const Operation& operation, unsigned bit) {
  return (static_cast<unsigned>(operation.epilogue) & bit) != 0;
}
constexpr unsigned relu = 2, adds_bias = 4, relu_gradient = 8, bias_gradient = 16, gelu = 32,
                   gelu_gradient = 64, uses_aux = 128, bias_gradient_a = 256, bias_gradient_b = 512;

std::string_view gelu_form() {
  const char* const said = std::getenv("SIMULATED_CUBLASLT_GELU");
  return said != nullptr ? said : "tanh";
}

float gelu_of(float x, std::string_view form) {
  if (std::isnan(x)) return form == "lost_nan" ? 0 : x;
  if (std::isinf(x) && x < 0) return form == "infinite_nan" ? std::nanf("") : 0;
  const auto v = static_cast<double>(x);
  const double pi = std::acos(-1.0);
  return static_cast<float>(
      form == "erf" ? 0.5 * v * std::erfc(-v / std::sqrt(2.0))
                    : 0.5 * v * (1 + std::tanh(std::sqrt(2 / pi) * (v + 0.044715 * v * v * v))));
}

struct Sizes {
  std::int64_t m, n, k;
};

// The pointers of bias and auxiliary values may come later than the question for algorithms.
bool fits(const Operation& o, const Matrix& a, const Matrix& b, const Matrix& d, Sizes& sizes,
          bool is_question = false) {
  const bool ta = o.op_a == CUBLAS_OP_T, tb = o.op_b == CUBLAS_OP_T;
  sizes = {d.rows, d.columns, ta ? a.rows : a.columns};
  if ((ta ? a.columns : a.rows) != sizes.m || (tb ? b.rows : b.columns) != sizes.n ||
      (tb ? b.columns : b.rows) != sizes.k)
    return false;
  for (const Matrix* matrix : {&a, &b, &d})
    if (matrix->ld < matrix->rows || matrix->values() == ValueType::unknown ||
        matrix->batch != d.batch)
      return false;
  // A result, or auxiliary values, of one matrix for all, or a bias of many, have no meaning.
  if (d.batch > 1 && (d.step < d.ld * d.columns || o.bias != nullptr || has(o, uses_aux)))
    return false;
  if (!has(o, uses_aux)) return true;
  return (is_question || o.aux != nullptr) && o.aux_ld >= sizes.m &&
         o.aux_ld % (has(o, gelu) ? 8 : 128) == 0;
}

// A matrix as floats, k running fastest.
std::vector<float> gather(const void* values, const Matrix& matrix, bool k_is_row,
                          std::int64_t outer, std::int64_t k) {
  std::vector<float> result(static_cast<std::size_t>(outer * k));
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t at = k_is_row ? j + i * matrix.ld : i + j * matrix.ld;
      result[static_cast<std::size_t>(i * k + j)] =
          load(matrix.values(), values, static_cast<std::size_t>(at));
    }
  return result;
}

struct Product {
  Operation o;
  Matrix a, b, c, d;
  Sizes sizes;
  float alpha, beta;
  const void *a_values, *b_values, *c_values;
  void* d_values;
  int algorithm = 0;

  void run() const {
    for (std::int64_t i = 0; i < d.batch; ++i) {
      Product one = *this;
      one.a_values = moved(a_values, a, i);
      one.b_values = moved(b_values, b, i);
      one.c_values = moved(c_values, c, i);
      one.d_values = const_cast<void*>(moved(d_values, d, i));
      one.run_one();
    }
  }

  void run_one() const {
    const auto& [m, n, k] = sizes;
    const std::vector<float> left = gather(a_values, a, o.op_a == CUBLAS_OP_T, m, k);
    const std::vector<float> right = gather(b_values, b, o.op_b != CUBLAS_OP_T, n, k);
    const std::vector<float> rounded_left = factors(left), rounded_right = factors(right);
    const ValueType bias_type =
        o.bias_type < 0 ? d.values() : value_type(static_cast<cudaDataType_t>(o.bias_type));
    std::vector<double> row_sums(static_cast<std::size_t>(m));
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        const float* const x = rounded_left.data() + i * k;
        const float* const y = rounded_right.data() + j * k;
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += static_cast<double>(x[l]) * static_cast<double>(y[l]);
        float value = alpha * static_cast<float>(sum);
        // With beta = 0 C is not read: it may hold anything.
        if (beta != 0) value += beta * load(c.values(), c_values, at(c, i, j));
        if (has(o, adds_bias)) value += load(bias_type, o.bias, static_cast<std::size_t>(i));
        value = activated(value, i, j);
        row_sums[static_cast<std::size_t>(i)] += static_cast<double>(value);
        store(d.values(), d_values, at(d, i, j), value);
      }
    if (has(o, bias_gradient)) put_bias(bias_type, row_sums);
    if (has(o, bias_gradient_a)) put_bias(bias_type, sums(left, m));
    if (has(o, bias_gradient_b)) put_bias(bias_type, sums(right, n));
  }

  // What an algorithm leaves that fails in between.
  void spoil() const {
    const Access access;
    for (std::int64_t j = 0; j < sizes.n; ++j)
      for (std::int64_t i = 0; i < sizes.m; ++i) store(d.values(), d_values, at(d, i, j), 1e6F);
  }

 private:
  // The i-th matrix of a batch.
  static const void* moved(const void* values, const Matrix& matrix, std::int64_t i) {
    return static_cast<const std::byte*>(values) + i * matrix.step * size_of(matrix.values());
  }
  // What is multiplied.
  std::vector<float> factors(std::vector<float> values) const {
    if (o.is_tf32) std::ranges::transform(values, values.begin(), to_tf32);
    return values;
  }
  std::string_view form() const {
    const std::string_view said = gelu_form();
    const bool is_erf =
        (said == "mixed" && algorithm == 1) || (said == "erf_if_wide" && sizes.m >= 64);
    return is_erf ? "erf" : said;
  }
  static std::size_t at(const Matrix& matrix, std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i + j * matrix.ld);
  }
  float activated(float value, std::int64_t i, std::int64_t j) const {
    if (has(o, gelu)) {
      if (has(o, uses_aux))
        store(d.values(), o.aux, static_cast<std::size_t>(i + j * o.aux_ld),
              form() == "wrong_input" ? 0 : value);
      return gelu_of(value, form());
    }
    const std::int64_t bit = i + j * o.aux_ld;
    auto* const bytes = static_cast<std::uint8_t*>(o.aux);
    const auto flag = static_cast<std::uint8_t>(1 << bit % 8);
    if (has(o, relu_gradient)) return (bytes[bit / 8] & flag) != 0 ? value : 0;
    if (!has(o, relu)) return value;
    const bool is_positive = value > 0;
    if (has(o, uses_aux)) {
      bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] & ~flag);
      if (is_positive) bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] | flag);
    }
    return is_positive || value != value ? value : 0;
  }
  std::vector<double> sums(const std::vector<float>& matrix, std::int64_t count) const {
    std::vector<double> result(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count * sizes.k; ++i)
      result[static_cast<std::size_t>(i / sizes.k)] +=
          static_cast<double>(matrix[static_cast<std::size_t>(i)]);
    return result;
  }
  void put_bias(ValueType type, const std::vector<double>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      store(type, o.bias, i, static_cast<float>(values[i]));
  }
};

template <class T>
cublasStatus_t set(T& setting, const void* buffer, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&setting, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

constexpr std::size_t workspace_bytes = 256;

// Who asks for several algorithms gets first one that does not run after all.
bool runs(const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[0] < 2;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int something = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&something);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) {
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
const char* cublasLtGetStatusName(cublasStatus_t /*status*/) {
  return "a cublasStatus_t";
}
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) {
  return "an error of the simulated cuBLASLt";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, std::size_t,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale_type) {
  const bool is_tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  new (description) Operation{.is_tf32 = is_tf32};
  return scale_type == CUDA_R_32F && (is_tf32 || compute == CUBLAS_COMPUTE_32F)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, std::size_t bytes) {
  auto& operation = inside<Operation>(description);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(operation.op_a, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(operation.op_b, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      if (const cublasStatus_t status = set(operation.epilogue, buffer, bytes);
          status != CUBLAS_STATUS_SUCCESS)
        return status;
      return has(operation, gelu_gradient) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(operation.bias, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(operation.bias_type, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(operation.aux, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(operation.aux_ld, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t,
                                                 cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t ld) {
  new (layout)
      Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* buffer, std::size_t bytes) {
  auto& matrix = inside<Matrix>(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(matrix.batch, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(matrix.step, buffer, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t /*c*/,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t,
                                              int room, cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  Sizes sizes{};
  *count = 0;
  const auto& operation = inside<Operation>(description);
  if (!fits(operation, inside<Matrix>(a), inside<Matrix>(b), inside<Matrix>(d), sizes,
            /*is_question=*/true))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (room < 1) return CUBLAS_STATUS_INVALID_VALUE;
  // As the real one has no algorithm for some shapes that fuses biases or their gradients.
  if (has(operation, adds_bias | bias_gradient | bias_gradient_a | bias_gradient_b) &&
      sizes.m % 2 != 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(room, 3);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].workspaceSize = workspace_bytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].algo.data[0] = *count - 1 - i;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a_values, cublasLtMatrixLayout_t a, const void* b_values,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_values,
                              cublasLtMatrixLayout_t c, void* d_values, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t room, cudaStream_t stream) {
  Product product{inside<Operation>(description),
                  inside<Matrix>(a),
                  inside<Matrix>(b),
                  inside<Matrix>(c),
                  inside<Matrix>(d),
                  {},
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  a_values,
                  b_values,
                  c_values,
                  d_values};
  if (!fits(product.o, product.a, product.b, product.d, product.sizes))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm != nullptr && !runs(*algorithm)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algorithm != nullptr && (room < workspace_bytes || workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t refused =
      algorithm == nullptr ? CUBLAS_STATUS_SUCCESS
                           : refusal_of_product(static_cast<int>(algorithm->data[0]),
                                                product.o.epilogue != CUBLASLT_EPILOGUE_DEFAULT,
                                                has(product.o, gelu), stream);
  const bool is_failure =
      refused != CUBLAS_STATUS_SUCCESS && refused != CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_failure) {
    enqueue(stream, [product] { product.spoil(); });
    fail_at_execution(stream);
  }
  if (refused != CUBLAS_STATUS_SUCCESS) return refused;
  if (algorithm != nullptr) product.algorithm = static_cast<int>(algorithm->data[0]);
  for (int i = 0; has(product.o, gelu) && gelu_form() == "slow" && i < 6; ++i)
    enqueue(stream, [] {});
  enqueue(
      stream,
      [product] {
        const Access access;
        product.run();
      },
      "launch.cublasLtMatmul");
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace tasuki::simulated

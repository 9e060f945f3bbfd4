#include "tensor/cuda/matmul.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "core/error.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/copy_kernels.hpp"
#include "tensor/cuda/cublaslt.hpp"
#include "tensor/cuda/elementwise_kernels.hpp"
#include "tensor/cuda/reduce_kernels.hpp"
#include "tensor/cuda_settings.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

namespace {

// The largest power of two up to 256 that divides the number.
std::uint32_t largest_divisor(std::uintptr_t number) {
  return number == 0 ? 256 : 1U << std::min(std::countr_zero(number), 8);
}

// Of all matrices of a batch.
std::uint32_t batch_alignment(const void* address, std::int64_t step, DType type) {
  const auto bytes = static_cast<std::uintptr_t>(step) * size_of(type);
  return std::min(alignment_of(address), largest_divisor(bytes));
}

}  // namespace

std::uint32_t alignment_of(const void* address) {
  return largest_divisor(reinterpret_cast<std::uintptr_t>(address));
}

MatmulKey::MatmulKey(const MatrixProduct& product, bool allow_tf32, bool timed)
    : m(product.m),
      n(product.n),
      k(product.k),
      batch(product.batch),
      step_a(product.step_a),
      step_b(product.step_b),
      step_c(product.step_c),
      alignment_a(batch_alignment(product.a, product.step_a, product.operands)),
      alignment_b(batch_alignment(product.b, product.step_b, product.operands)),
      alignment_c(std::min({batch_alignment(product.c, product.step_c, product.result),
                            alignment_of(product.added), alignment_of(product.before)})),
      alignment_vector(alignment_of(product.bias != nullptr ? product.bias : product.row_sums)),
      operands(product.operands),
      result(product.result),
      transpose_a(product.transpose_a),
      transpose_b(product.transpose_b),
      adds(product.beta != 0),
      has_bias(product.bias != nullptr),
      relu(product.relu),
      has_row_sums(product.row_sums != nullptr),
      tf32(allow_tf32 && product.operands == DType::float32),
      gelu(product.before != nullptr ? std::optional(product.gelu) : std::nullopt),
      is_timed(timed) {}

std::size_t MatmulKeyHash::operator()(const MatmulKey& key) const noexcept {
  std::size_t hash = 0;
  const auto mix = [&hash](std::size_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  };
  for (const std::int64_t size :
       {key.m, key.n, key.k, key.batch, key.step_a, key.step_b, key.step_c})
    mix(static_cast<std::size_t>(size));
  for (const std::uint32_t alignment :
       {key.alignment_a, key.alignment_b, key.alignment_c, key.alignment_vector})
    mix(alignment);
  std::size_t flags = 0;
  for (const bool flag :
       {key.transpose_a, key.transpose_b, key.adds, key.has_bias, key.relu, key.has_row_sums,
        key.gelu.has_value(), key.gelu == Map::gelu_tanh, key.tf32, key.is_timed})
    flags = 2 * flags + (flag ? 1 : 0);
  mix(flags + (static_cast<std::size_t>(key.operands) << 16) +
      (static_cast<std::size_t>(key.result) << 24));
  return hash;
}

namespace {

AlgorithmTrials::Outcome outcome_of(cublasStatus_t answer) {
  switch (answer) {
    case CUBLAS_STATUS_SUCCESS:
      return AlgorithmTrials::Outcome::done;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return AlgorithmTrials::Outcome::refused;
    case CUBLAS_STATUS_ALLOC_FAILED:
    case CUBLAS_STATUS_EXECUTION_FAILED:
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return AlgorithmTrials::Outcome::failed;
    default:  // no algorithm would do better
      check_cublas(answer, "cublasLtMatmul");
      return AlgorithmTrials::Outcome::failed;
  }
}

std::string text_of(const MatmulAlgorithms::Choice& choice, std::size_t number,
                    cublasStatus_t answer) {
  return fmt::format("algorithm {}{} of cuBLASLt: {}", number + 1, choice.is_fused ? ", fused" : "",
                     cublasLtGetStatusName(answer));
}

// Computes the product with one algorithm.
cublasStatus_t multiply_by(CudaContext& context, MatrixProduct p, const MatmulKey& key,
                           const MatmulAlgorithms::Choice& choice) {
  const Launch launch = context.launch();
  // A bias that cuBLASLt adds has the type of the result; the kernel's is float32.
  const DType bias_type = choice.is_fused ? p.result : DType::float32;
  Tensor converted_bias;
  if (p.bias != nullptr && p.bias_type != bias_type) {
    converted_bias = Tensor::empty({p.n}, bias_type, context.device());
    kernels::convert(launch, bias_type, converted_bias.raw(), p.bias_type, p.bias, p.n);
    check_launch("convert");
    p.bias = converted_bias.raw();
  }
  MatmulDescription description(p, key.tf32, choice.is_fused);
  const std::shared_ptr<Storage> workspace =
      choice.workspace > 0 ? context.allocate(choice.workspace) : nullptr;
  const cublasStatus_t answer =
      run_matmul(context.matmul().cublaslt.get(), description, p, choice.algorithm,
                 workspace ? workspace->data() : nullptr, choice.workspace, launch.stream);
  if (answer == CUBLAS_STATUS_SUCCESS && p.bias != nullptr && !choice.is_fused) {
    kernels::add_bias(launch, p.result, p.c, static_cast<const float*>(p.bias), p.m, p.n, p.relu);
    check_launch("bias");
  }
  return answer;
}

}  // namespace

bool multiply(CudaContext& context, const MatrixProduct& product) {
  TASUKI_CHECK(
      product.row_sums == nullptr || (product.bias == nullptr && product.result == DType::float32),
      "row sums with a bias, or beside a result of {}", name_of(product.result));
  TASUKI_CHECK(product.batch == 1 || (product.bias == nullptr && product.row_sums == nullptr &&
                                      product.added == nullptr),
               "a batch of {} products with a bias, row sums or an addend", product.batch);
  TASUKI_CHECK(product.before == nullptr || (product.batch == 1 && product.beta == 0 &&
                                             product.row_sums == nullptr && !product.relu),
               "GELU of a product in a batch, with an addend, row sums or a ReLU");
  const MatmulKey key(product, cuda_settings().allow_tf32, cuda_settings().autotune);
  // Choosing reads results on the host (gelu_trial.hpp), which cannot be recorded.
  if (key.gelu && !context.matmul().algorithms.has(key) && is_recorded(context.stream())) {
    multiply_before_gelu(context, product);
    return false;
  }
  MatmulAlgorithms::Known& known =
      context.matmul().algorithms.get(key, [&] { return choose_matmul(context, product, key); });
  AlgorithmTrials::Work work{"cublasLtMatmul"};
  if (product.adds_to_result()) {
    work.sum = product.c;
    work.bytes = product.result_bytes();
  }
  bool is_fused = false;
  known.trials.run(context, work, known.choices.size(), [&](std::size_t number) {
    const MatmulAlgorithms::Choice& choice = known.choices[number];
    is_fused = choice.is_fused;
    if (key.gelu && !is_fused) return AlgorithmTrials::Answer{};
    const cublasStatus_t answer = multiply_by(context, product, key, choice);
    AlgorithmTrials::Answer result{outcome_of(answer)};
    if (result.outcome != AlgorithmTrials::Outcome::done)
      result.why = text_of(choice, number, answer);
    return result;
  });
  if (key.gelu && !is_fused) multiply_before_gelu(context, product);
  return is_fused && product.row_sums != nullptr;
}

void multiply_before_gelu(CudaContext& context, const MatrixProduct& product) {
  MatrixProduct sum = product;
  sum.c = std::exchange(sum.before, nullptr);
  multiply(context, sum);
  kernels::map(context.launch(), product.gelu, product.result, sum.c, product.c, 0, 0,
               product.m * product.n);
  check_launch("GELU");
}

}  // namespace tasuki

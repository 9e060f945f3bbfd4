#include "tensor/cuda/cublaslt.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/gelu_trial.hpp"
#include "tensor/cuda/timing.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

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

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         Value value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

// A contiguous column-major matrix, or `batch` of them.
void init(cublasLtMatrixLayoutOpaque_t& layout, DType type, std::int64_t rows, std::int64_t columns,
          std::int64_t batch, std::int64_t step) {
  check_cublas(cublasLtMatrixLayoutInit(&layout, type_of(type), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutInit");
  if (batch == 1) return;
  const auto count = static_cast<std::int32_t>(batch);
  TASUKI_CHECK(count == batch, "{} matrices in a batch", batch);
  check_cublas(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof(count)),
               "cublasLtMatrixLayoutSetAttribute");
  check_cublas(cublasLtMatrixLayoutSetAttribute(
                   &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
               "cublasLtMatrixLayoutSetAttribute");
}

}  // namespace

MatmulDescription::MatmulDescription(const MatrixProduct& p, bool tf32, bool fuse) {
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublas(cublasLtMatmulDescInit(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescInit");
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (fuse && p.before != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.before);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
  } else if (fuse && p.bias != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
        p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  } else if (fuse) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.row_sums);
  } else if (p.relu && p.bias == nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  }
  init(first, p.operands, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.batch, p.step_b);
  init(second, p.operands, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.batch, p.step_a);
  init(result, p.result, p.n, p.m, p.batch, p.step_c);
}

cublasStatus_t run_matmul(cublasLtHandle_t handle, MatmulDescription& description,
                          const MatrixProduct& p, const cublasLtMatmulAlgo_t& algorithm,
                          void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  // Read before this returns, also in a recording.
  const float one = 1;
  const void* const added = p.added != nullptr ? p.added : p.c;
  return cublasLtMatmul(handle, &description.operation, &one, p.b, &description.first, p.a,
                        &description.second, &p.beta, added, &description.result, p.c,
                        &description.result, &algorithm, workspace, workspace_bytes, stream);
}

namespace {

using Found = cublasLtMatmulHeuristicResult_t;

// NVIDIA's advice for Hopper; earlier devices need less.
constexpr std::size_t largest_workspace = std::size_t{32} << 20;

// How many algorithms are requested.
constexpr int most_asked = 16;

struct Preference {
  cublasLtMatmulPreferenceOpaque_t value;

  explicit Preference(const MatmulKey& key) {
    check_cublas(cublasLtMatmulPreferenceInit(&value), "cublasLtMatmulPreferenceInit");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::min(largest_workspace, cuda_settings().workspace_limit));
    // Otherwise partial sums over k, computed by different blocks, would be rounded to the result's
    // type.
    if (key.result != DType::float32)
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
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

// Sorts the fastest first. Drops algorithms with GELU that are slower than two passes.
std::vector<Found> sorted_by_time(CudaContext& context, const MatrixProduct& product,
                                  const MatmulKey& key, bool fuse, std::span<const Found> found) {
  const std::shared_ptr<Storage> result = context.allocate(product.result_bytes());
  const std::shared_ptr<Storage> before =
      key.gelu ? context.allocate(product.result_bytes()) : nullptr;
  const std::shared_ptr<Storage> row_sums =
      context.allocate(static_cast<std::size_t>(product.m) * sizeof(float));
  MatrixProduct tried = product;
  tried.c = result->data();
  if (product.row_sums != nullptr) tried.row_sums = static_cast<float*>(row_sums->data());
  if (key.gelu) tried.before = before->data();
  MatmulDescription description(tried, key.tf32, fuse);
  std::vector<std::pair<float, Found>> timed;
  timed.reserve(found.size());
  for (const Found& candidate : found) {
    const std::shared_ptr<Storage> workspace = context.allocate(candidate.workspaceSize);
    const float time = best_time(context, [&] {
      return run_matmul(context.matmul().cublaslt.get(), description, tried, candidate.algo,
                        workspace->data(), candidate.workspaceSize,
                        context.stream()) == CUBLAS_STATUS_SUCCESS;
    });
    timed.emplace_back(time, candidate);
  }
  std::ranges::stable_sort(timed, {}, &std::pair<float, Found>::first);
  if (key.gelu) {
    const float apart = best_time(context, [&] {
      try {
        multiply_before_gelu(context, tried);
        return true;
      } catch (const NoAlgorithmLeft&) {
        return false;
      }
    });
    std::erase_if(timed, [&](const auto& candidate) { return candidate.first > apart; });
  }
  std::vector<Found> sorted;
  sorted.reserve(timed.size());
  for (const auto& candidate : timed) sorted.push_back(candidate.second);
  return sorted;
}

// Those that compute GELU as they should. `findings`: how many, and what speaks against the others.
std::vector<Found> that_compute_gelu(CudaContext& context, const MatrixProduct& product,
                                     const MatmulKey& key, std::span<const Found> found,
                                     std::string& findings) {
  std::vector<Found> right;
  std::string objections;
  GeluTrial trial(context, product, key.tf32);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string objection = trial.objection_to(found[i].algo, found[i].workspaceSize);
    if (objection.empty())
      right.push_back(found[i]);
    else
      objections += fmt::format("; not {}: {}", i + 1, objection);
  }
  findings = fmt::format("{} of cuBLASLt's {} algorithms compute it{}", right.size(), found.size(),
                         objections);
  return right;
}

}  // namespace

std::vector<MatmulAlgorithms::Choice> choose_matmul(CudaContext& context,
                                                    const MatrixProduct& product,
                                                    const MatmulKey& key) {
  Preference preference(key);
  // Timing waits for the device, which cannot be recorded.
  const bool is_timed = key.is_timed && !is_recorded(context.stream());
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  std::vector<MatmulAlgorithms::Choice> choices;
  std::string findings = "cuBLASLt has no algorithm for both";  // about GELU
  for (const bool fuse : {true, false}) {
    if (fuse && !key.has_bias && !key.has_row_sums) continue;
    if (!fuse && key.gelu) {
      log_verbose("GELU by {} of a product {}x{}x{} of {}: {}: {}",
                  key.gelu == Map::gelu ? "erf" : "tanh", key.m, key.n, key.k,
                  key.tf32 ? "float32 as TF32" : name_of(key.operands),
                  choices.empty() ? "a pass of its own" : "in the product's end", findings);
      choices.push_back({});
      continue;
    }
    MatmulDescription description(product, key.tf32, fuse);
    std::array<Found, most_asked> answers{};
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(context.matmul().cublaslt.get(), &description.operation,
                                            &description.first, &description.second,
                                            &description.result, &description.result,
                                            &preference.value, most_asked, answers.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    const auto usable =
        std::remove_if(answers.begin(), answers.begin() + count,
                       [](const Found& answer) { return answer.state != CUBLAS_STATUS_SUCCESS; });
    std::vector<Found> found(answers.begin(), usable);
    if (key.gelu && !found.empty())
      found = that_compute_gelu(context, product, key, found, findings);
    // Algorithms that do not fuse are the last resort if others do.
    if (is_timed && choices.empty() && found.size() > (key.gelu ? 0 : 1)) {
      found = sorted_by_time(context, product, key, fuse, found);
      if (key.gelu && found.empty()) findings += ", none faster than two passes";
    }
    for (const Found& each : found) choices.push_back({each.algo, each.workspaceSize, fuse});
  }
  if (choices.empty())
    throw NoAlgorithmLeft(fmt::format(
        "cuBLASLt has no algorithm for a product {}x{}x{} of {} as {}: {}", product.m, product.n,
        product.k, name_of(product.operands), name_of(product.result),
        cublasLtGetStatusName(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED
                                                              : status)));
  return choices;
}

}  // namespace tasuki

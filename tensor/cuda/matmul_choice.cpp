#include "tensor/cuda/matmul_choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/matmul_description.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

using Found = cublasLtMatmulHeuristicResult_t;

// NVIDIA's advice for Hopper; earlier devices need less.
constexpr std::size_t largest_workspace = std::size_t{32} << 20;

// How many algorithms are requested, how often each is timed in a row, and in how many rounds.
constexpr int most_asked = 16, runs = 10, rounds = 3;

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

// Milliseconds of the best round; infinite if the algorithm does not run after all.
float time_of(CudaContext& context, MatmulDescription& description, const MatrixProduct& product,
              const Found& found) {
  const cudaStream_t stream = context.stream();
  const std::shared_ptr<Storage> workspace = context.allocate(found.workspaceSize);
  const auto run = [&] {
    return run_matmul(context.cublaslt(), description, product, found.algo, workspace->data(),
                      found.workspaceSize, stream);
  };
  constexpr float never = std::numeric_limits<float>::infinity();
  if (run() != CUBLAS_STATUS_SUCCESS) {
    cudaGetLastError();  // clears the error
    return never;
  }
  const CudaEvent begin = make_timing_event(), end = make_timing_event();
  float best = never;
  for (int round = 0; round < rounds; ++round) {
    check_cuda(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) check_cublas(run(), "cublasLtMatmul");
    check_cuda(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    report_progress();
    check_cuda(cudaEventSynchronize(end.get()), "timing a matrix product");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    best = std::min(best, milliseconds);
  }
  return best;
}

// Sorts the fastest first.
void sort_by_time(CudaContext& context, const MatrixProduct& product, const MatmulKey& key,
                  bool fuse, std::span<Found> found) {
  const std::shared_ptr<Storage> result = context.allocate(product.result_bytes());
  const std::shared_ptr<Storage> row_sums =
      context.allocate(static_cast<std::size_t>(product.m) * sizeof(float));
  MatrixProduct tried = product;
  tried.c = result->data();
  if (product.row_sums != nullptr) tried.row_sums = static_cast<float*>(row_sums->data());
  MatmulDescription description(tried, key.tf32, fuse);
  std::vector<std::pair<float, Found>> timed;
  timed.reserve(found.size());
  for (const Found& candidate : found)
    timed.emplace_back(time_of(context, description, tried, candidate), candidate);
  std::ranges::stable_sort(timed, {}, &std::pair<float, Found>::first);
  std::ranges::transform(timed, found.begin(), &std::pair<float, Found>::second);
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
  for (const bool fuse : {true, false}) {
    if (fuse && !key.has_bias && !key.has_row_sums) continue;
    MatmulDescription description(product, key.tf32, fuse);
    std::array<Found, most_asked> answers{};
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(context.cublaslt(), &description.operation,
                                            &description.first, &description.second,
                                            &description.result, &description.result,
                                            &preference.value, most_asked, answers.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    const auto usable =
        std::remove_if(answers.begin(), answers.begin() + count,
                       [](const Found& answer) { return answer.state != CUBLAS_STATUS_SUCCESS; });
    const std::span<Found> found(answers.begin(), usable);
    // Algorithms that do not fuse are the last resort if others do.
    if (is_timed && choices.empty() && found.size() > 1)
      sort_by_time(context, product, key, fuse, found);
    for (const Found& each : found) choices.push_back({each.algo, each.workspaceSize, fuse});
  }
  if (choices.empty())
    fail(ErrorKind::unavailable, "cuBLASLt has no algorithm for a product {}x{}x{} of {} as {}: {}",
         product.m, product.n, product.k, name_of(product.operands), name_of(product.result),
         cublasLtGetStatusName(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED
                                                               : status));
  return choices;
}

}  // namespace tasuki

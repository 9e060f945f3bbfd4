#include "refusals.hpp"

#include <array>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

#include "queue.hpp"

namespace tasuki::simulated {
namespace {

struct Refusal {
  std::string moment, algorithm, how;
  int status = 0;

  explicit Refusal(const char* variable) {
    const char* const text = std::getenv(variable);
    std::istringstream words(text != nullptr ? text : "");
    words >> moment >> algorithm >> how >> status;
  }
  // `manners`: words for how it is done.
  bool is_for(const std::string& at, int number, const std::set<std::string>& manners) const {
    return (moment == at) && (algorithm == "any" || algorithm == std::to_string(number)) &&
           (how == "any" || manners.contains(how));
  }
  bool is_for_run(int number, const std::set<std::string>& manners, cudaStream_t stream) const {
    return is_for("run", number, manners) ||
           (is_for("record", number, manners) && is_recording(stream));
  }
};

std::set<std::string> words_for(const ConvolutionKind& kind) {
  std::set<std::string> words = {kind.is_channels_last ? "channels_last" : "plain"};
  if (kind.is_16bit) words.insert("16bit");
  if (kind.is_fused) words.insert("fused");
  if (kind.is_16bit && kind.is_irregular) words.insert("irregular_16bit");
  return words;
}

cudnnStatus_t refusal_of_cudnn(Moment moment, int algorithm, const std::set<std::string>& words,
                               cudaStream_t stream) {
  const Refusal refusal("SIMULATED_CUDNN_REFUSES");
  constexpr std::array<const char*, 3> questions = {"ask", "offer", "workspace"};
  const bool is_meant =
      moment == Moment::run
          ? refusal.is_for_run(algorithm, words, stream)
          : refusal.is_for(questions.at(static_cast<std::size_t>(moment)), algorithm, words);
  return is_meant ? static_cast<cudnnStatus_t>(refusal.status) : CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t refusal(Moment moment, int algorithm, const ConvolutionKind& kind,
                      cudaStream_t stream) {
  return refusal_of_cudnn(moment, algorithm, words_for(kind), stream);
}

cudnnStatus_t refusal_of_graph(Moment moment, int products, cudaStream_t stream) {
  return refusal_of_cudnn(moment, products, {"graph"}, stream);
}

cublasStatus_t refusal_of_product(int algorithm, bool is_fused, bool has_gelu,
                                  cudaStream_t stream) {
  const Refusal refusal("SIMULATED_CUBLASLT_REFUSES");
  return refusal.is_for_run(
             algorithm, {is_fused ? "fused" : "separate", has_gelu ? "gelu" : "not_gelu"}, stream)
             ? static_cast<cublasStatus_t>(refusal.status)
             : CUBLAS_STATUS_SUCCESS;
}

FusedRelu fused_relu() {
  const char* const text = std::getenv("SIMULATED_CUDNN_RELU");
  const std::string manner = text != nullptr ? text : "";
  return manner == "drops_nan"          ? FusedRelu::drops_nan
         : manner == "reads_z"          ? FusedRelu::reads_z
         : manner == "takes_no_request" ? FusedRelu::takes_no_request
         : manner == "slow"             ? FusedRelu::slow
                                        : FusedRelu::as_requested;
}

void fail_at_execution(cudaStream_t stream) {
  set_last_error(cudaErrorLaunchOutOfResources);
  break_recording(stream);
}

}  // namespace tasuki::simulated

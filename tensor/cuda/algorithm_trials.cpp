#include "tensor/cuda/algorithm_trials.hpp"

#include "core/log.hpp"
#include "tensor/cuda/context.hpp"

namespace tasuki {
namespace {

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
             "cudaMemcpyAsync (on the device)");
}

}  // namespace

std::shared_ptr<Storage> AlgorithmTrials::keep_sum(CudaContext& context, const Work& work) {
  if (work.sum == nullptr || is_recorded(context.stream())) return nullptr;
  std::shared_ptr<Storage> kept = context.allocate(work.bytes);
  copy(kept->data(), work.sum, work.bytes, context.stream());
  return kept;
}

void AlgorithmTrials::give_up(std::size_t number, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (current_ != number) return;  // another thread was first
  current_ = number + 1;
  has_run_ = false;
  failures_ += (failures_.empty() ? "" : "; ") + why;
}

void AlgorithmTrials::recover(CudaContext& context, const Work& work, const std::string& why,
                              const Storage* before) {
  clear_error(work.call);
  log_verbose("{} failed, another algorithm takes its place: {}", work.call, why);
  if (is_recorded(context.stream()))
    fail(ErrorKind::unavailable, "{} failed while it was recorded: {}", work.call, why);
  if (work.sum == nullptr) return;
  if (before == nullptr)
    fail(ErrorKind::unavailable, "{} failed when it had run before: {}", work.call, why);
  copy(work.sum, before->data(), work.bytes, context.stream());
}

void AlgorithmTrials::fail_with_all(const Work& work) {
  const std::lock_guard lock(mutex_);
  throw NoAlgorithmLeft(
      fmt::format("{} failed: no algorithm is left; tried: {}", work.call, failures_));
}

}  // namespace tasuki

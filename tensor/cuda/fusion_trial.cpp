#include "tensor/cuda/fusion_trial.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda/image_passes.hpp"
#include "tensor/cuda/timing.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

constexpr const char* call = "cudnnConvolutionBiasActivationForward";

constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

struct Demand {
  float bias, result;  // of any finite sum
};
constexpr std::array demands = {Demand{nan, nan}, Demand{-infinity, 0}, Demand{infinity, infinity}};

// What speaks against the fused call with this activation; empty: nothing.
std::string objection_to(CudaContext& context, const FusionTrial::Work& work,
                         cudnnActivationDescriptor_t relu) {
  const Tensor& y = work.y;
  const std::int64_t channels = y.shape()[1];
  // Neighbouring channels have different biases, and each channel has all of them in turn. y, which
  // the call is given as an addend with factor 0, too, then holds NaN where another value is due.
  for (std::size_t turn = 0; turn < demands.size(); ++turn) {
    const Tensor biases = Tensor::empty({channels}), expected = Tensor::empty({channels});
    for (std::int64_t c = 0; c < channels; ++c) {
      const Demand& demand = demands[(static_cast<std::size_t>(c) + turn) % demands.size()];
      biases.data<float>()[c] = demand.bias;
      expected.data<float>()[c] = demand.result;
    }
    const Tensor bias = biases.to(y.dtype()).to(y.device());
    if (const cudnnStatus_t answer = work.fused(relu, bias); answer != CUDNN_STATUS_SUCCESS) {
      std::string text = cudnn_text(answer);
      clear_error(call);
      return text;
    }
    if (const std::int64_t wrong = count_differing(y, expected.to(y.device())); wrong > 0)
      return fmt::format("{} of {} values are wrong with biases of NaN and infinity", wrong,
                         y.count());
  }
  if (!cuda_settings().autotune) return {};
  const Tensor bias = Tensor::zeros({channels}, y.dtype(), y.device());
  const float once = best_time(context,
                               [&] { return work.fused(relu, bias) == CUDNN_STATUS_SUCCESS; }),
              twice = best_time(context, work.separate);
  if (std::isinf(once)) return "fails when it is timed";
  return once <= twice ? "" : fmt::format("{:.3f} ms against {:.3f} for ten runs", once, twice);
}

// Never destroyed, because it must not outlive any part of cuDNN.
cudnnActivationDescriptor_t relu_that(cudnnNanPropagation_t propagation) {
  static const std::array made = {cudnn_relu(CUDNN_NOT_PROPAGATE_NAN).release(),
                                  cudnn_relu(CUDNN_PROPAGATE_NAN).release()};
  return made[propagation == CUDNN_PROPAGATE_NAN ? 1 : 0];
}

}  // namespace

bool FusionTrial::is_due(const CudaContext& context) const {
  return !is_decided_ && !is_recorded(context.stream());
}

void FusionTrial::run(CudaContext& context, const Work& work) {
  const std::lock_guard lock(mutex_);
  if (is_decided_) return;
  std::string objections;
  // First as the names of the settings suggest. cuDNN's reference supports the second one alone,
  // and its kernels may keep NaN nevertheless.
  for (const auto& [propagation, name] : {std::pair{CUDNN_PROPAGATE_NAN, "asked to keep NaN"},
                                          {CUDNN_NOT_PROPAGATE_NAN, "not asked to"}}) {
    report_progress();
    const std::string objection = objection_to(context, work, relu_that(propagation));
    if (objection.empty()) {
      relu_ = relu_that(propagation);
      log_verbose("{}: cuDNN adds the bias and applies ReLU in the same call ({})", work.name,
                  name);
      break;
    }
    objections += fmt::format("{}{}: {}", objections.empty() ? "" : "; ", name, objection);
  }
  if (relu_ == nullptr)
    log_verbose("{}: bias and ReLU are a pass of their own; against cuDNN's call, {}", work.name,
                objections);
  is_decided_ = true;
}

void FusionTrial::give_up(const CudaContext& context, const std::string& name,
                          cudnnStatus_t answer) {
  relu_ = nullptr;
  clear_error(call);
  log_verbose("{}: bias and ReLU are a pass of their own from now on: {}", name,
              cudnn_text(answer));
  if (answer >= CUDNN_STATUS_INTERNAL_ERROR && is_recorded(context.stream()))
    fail(ErrorKind::unavailable, "{} failed while it was recorded: {}", call, cudnn_text(answer));
}

}  // namespace tasuki

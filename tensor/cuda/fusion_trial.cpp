#include "tensor/cuda/fusion_trial.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/activity.hpp"
#include "core/log.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/filter_kernels.hpp"
#include "tensor/cuda/timing.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

struct Demand {
  float bias, result;  // of any finite sum
};
constexpr std::array demands = {Demand{nan, nan}, Demand{-infinity, 0}, Demand{infinity, infinity}};

// How many values of y differ from their channel's.
std::int64_t count_differing(const CudaContext& context, const Tensor& y, const Tensor& expected) {
  const Shape& shape = y.shape();
  const Tensor count = Tensor::zeros({1}, DType::int64, y.device());
  kernels::count_differing(context.launch(), y.dtype(), y.raw(), expected.data<float>(),
                           {shape[0], shape[1], shape[2] * shape[3]}, is_channels_last(y),
                           count.data<std::int64_t>());
  check_launch("count_differing");
  return count.to(Device::cpu()).data<std::int64_t>()[0];
}

// After a call that failed: the next launch would otherwise report the error. After some errors
// there is no next launch.
void clear_error() {
  const cudaError_t left = cudaGetLastError();
  if (is_of_earlier_work(left)) check_cuda(left, "cudnnConvolutionBiasActivationForward");
}

// What speaks against the fused call with this activation; empty: nothing.
std::string objection_to(CudaContext& context, const FusionTrial::Work& work,
                         cudnnActivationDescriptor_t relu) {
  const Tensor& y = work.y;
  const std::int64_t channels = y.shape()[1];
  // Neighbouring channels have different biases, and each channel has all of them in turn.
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
      clear_error();
      return text;
    }
    if (const std::int64_t wrong = count_differing(context, y, expected.to(y.device())); wrong > 0)
      return fmt::format("{} of {} values are wrong with biases of NaN and infinity", wrong,
                         y.count());
  }
  if (!cuda_settings().autotune) return {};
  const Tensor bias = Tensor::zeros({channels}, y.dtype(), y.device());
  const float once = best_time(context,
                               [&] {
                                 check_cudnn(work.fused(relu, bias),
                                             "cudnnConvolutionBiasActivationForward");
                               }),
              twice = best_time(context, work.separate);
  return once <= twice ? "" : fmt::format("{:.3f} ms against {:.3f} for ten", once, twice);
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
  std::string objections;
  work.y.fill(nan);  // shows whether it is read
  // cuDNN's reference wants the second, whose name need not be all that its kernels do.
  for (const auto& [propagation, name] : {std::pair{CUDNN_PROPAGATE_NAN, "asked to keep NaN"},
                                          {CUDNN_NOT_PROPAGATE_NAN, "not asked to"}}) {
    report_progress();
    const std::string objection = objection_to(context, work, relu_that(propagation));
    if (objection.empty()) {
      relu_ = relu_that(propagation);
      log_verbose("{}: cuDNN adds the bias and applies ReLU ({})", work.name, name);
      break;
    }
    objections += fmt::format("{}{}: {}", objections.empty() ? "" : "; ", name, objection);
  }
  if (relu_ == nullptr)
    log_verbose("{}: the bias and ReLU are a pass of their own: {}", work.name, objections);
  is_decided_ = true;
}

}  // namespace tasuki

#include "tensor/cuda/convolution_plan.hpp"

#include <array>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/convolution_choice.hpp"
#include "tensor/cuda/filter_kernels.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki {
namespace {

// cuDNN does not support this; another layout or algorithm may work. Some of its calls report
// layouts and groups that a pass does not support as a bad parameter.
bool is_unsupported(cudnnStatus_t code) {
  return (code >= CUDNN_STATUS_BAD_PARAM && code < CUDNN_STATUS_NOT_SUPPORTED) ||
         (code >= CUDNN_STATUS_NOT_SUPPORTED && code < CUDNN_STATUS_INTERNAL_ERROR);
}

// It began, and an error occurred in between.
bool is_failure(cudnnStatus_t code) {
  return code >= CUDNN_STATUS_INTERNAL_ERROR;
}

// Memory to time algorithms on; its contents do not matter.
struct Scratch {
  std::shared_ptr<Storage> x, w, y, workspace;
};

// The three passes make the same calls but for names and the order of arguments.
struct Forward {
  using Offer = cudnnConvolutionFwdAlgoPerf_t;
  static auto most(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
  }
  static auto ask(cudnnHandle_t handle, const ConvolutionPlan& plan,
                  cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, plan.x(), plan.w(), convolution, plan.y(),
                                                  room, count, offers);
  }
  static auto time(cudnnHandle_t handle, const ConvolutionPlan& plan,
                   cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers,
                   const Scratch& s) {
    return cudnnFindConvolutionForwardAlgorithmEx(
        handle, plan.x(), s.x->data(), plan.w(), s.w->data(), convolution, plan.y(), s.y->data(),
        room, count, offers, s.workspace->data(), s.workspace->bytes());
  }
  static auto workspace(cudnnHandle_t handle, const ConvolutionPlan& plan,
                        cudnnConvolutionDescriptor_t convolution, int algorithm,
                        std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(
        handle, plan.x(), plan.w(), convolution, plan.y(),
        static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), bytes);
  }
};

struct BackwardData {
  using Offer = cudnnConvolutionBwdDataAlgoPerf_t;
  static auto most(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, count);
  }
  static auto ask(cudnnHandle_t handle, const ConvolutionPlan& plan,
                  cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, plan.w(), plan.y(), convolution,
                                                       plan.x(), room, count, offers);
  }
  static auto time(cudnnHandle_t handle, const ConvolutionPlan& plan,
                   cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers,
                   const Scratch& s) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(
        handle, plan.w(), s.w->data(), plan.y(), s.y->data(), convolution, plan.x(), s.x->data(),
        room, count, offers, s.workspace->data(), s.workspace->bytes());
  }
  static auto workspace(cudnnHandle_t handle, const ConvolutionPlan& plan,
                        cudnnConvolutionDescriptor_t convolution, int algorithm,
                        std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(
        handle, plan.w(), plan.y(), convolution, plan.x(),
        static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
  }
};

struct BackwardWeights {
  using Offer = cudnnConvolutionBwdFilterAlgoPerf_t;
  static auto most(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, count);
  }
  static auto ask(cudnnHandle_t handle, const ConvolutionPlan& plan,
                  cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, plan.x(), plan.y(), convolution,
                                                         plan.w(), room, count, offers);
  }
  static auto time(cudnnHandle_t handle, const ConvolutionPlan& plan,
                   cudnnConvolutionDescriptor_t convolution, int room, int* count, Offer* offers,
                   const Scratch& s) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(
        handle, plan.x(), s.x->data(), plan.y(), s.y->data(), convolution, plan.w(), s.w->data(),
        room, count, offers, s.workspace->data(), s.workspace->bytes());
  }
  static auto workspace(cudnnHandle_t handle, const ConvolutionPlan& plan,
                        cudnnConvolutionDescriptor_t convolution, int algorithm,
                        std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, plan.x(), plan.y(), convolution, plan.w(),
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
  }
};

CudnnConvolution make_convolution(const Conv2dOptions& o, cudnnMathType_t math) {
  cudnnConvolutionDescriptor_t made = nullptr;
  check_cudnn(cudnnCreateConvolutionDescriptor(&made), "cudnnCreateConvolutionDescriptor");
  CudnnConvolution convolution(made);
  // Sums are float32 for all types of operands.
  check_cudnn(cudnnSetConvolution2dDescriptor(made, cudnn_size(o.pad_h), cudnn_size(o.pad_w),
                                              cudnn_size(o.stride_h), cudnn_size(o.stride_w),
                                              cudnn_size(o.dilation_h), cudnn_size(o.dilation_w),
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              "cudnnSetConvolution2dDescriptor");
  check_cudnn(cudnnSetConvolutionGroupCount(made, cudnn_size(o.groups)),
              "cudnnSetConvolutionGroupCount");
  check_cudnn(cudnnSetConvolutionMathType(made, math), "cudnnSetConvolutionMathType");
  return convolution;
}

// For float32 CUDNN_DEFAULT_MATH means TF32.
cudnnMathType_t math_for(DType type) {
  if (type != DType::float32) return CUDNN_TENSOR_OP_MATH;
  return cuda_settings().allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

std::size_t bytes_of(const Shape& shape, DType type) {
  return static_cast<std::size_t>(shape.count()) * size_of(type);
}

// The same convolution of images with this many channels; only without groups another number.
ConvolutionGeometry with_inputs(const ConvolutionGeometry& geometry, std::int64_t inputs) {
  const Shape &x = geometry.x, &w = geometry.w;
  if (inputs == x[1]) return geometry;
  return {{x[0], inputs, x[2], x[3]}, {w[0], inputs, w[2], w[3]}, geometry.options};
}

// A type and an order in which a convolution can be computed, and with how many channels of x.
struct Form {
  DType type;
  std::shared_ptr<const Layout> layout;
  std::int64_t inputs;
};

constexpr int timing_rounds = 3;

template <class Offer>
std::vector<ConvolutionOffer> offers_of(const std::vector<Offer>& offers, int count, DType type) {
  const bool is_fma = math_for(type) == CUDNN_FMA_MATH;
  std::vector<ConvolutionOffer> result;
  for (int i = 0; i < count; ++i) {
    const Offer& offer = offers[static_cast<std::size_t>(i)];
    result.push_back({.algorithm = static_cast<int>(offer.algo),
                      .works = offer.status == CUDNN_STATUS_SUCCESS,
                      .is_deterministic = offer.determinism == CUDNN_DETERMINISTIC,
                      .is_reduced = type == DType::float32 &&
                                    (offer.mathType == CUDNN_TENSOR_OP_MATH ||
                                     offer.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
                      .math = is_fma ? CUDNN_FMA_MATH : offer.mathType,
                      .workspace = offer.memory,
                      .milliseconds = offer.time});
  }
  return result;
}

template <class Pass>
std::vector<ConvolutionOffer> offers_for(CudaContext& context, const ConvolutionPlan& plan,
                                         const ConvolutionGeometry& geometry, DType type) {
  const cudnnHandle_t handle = cudnn_handle(context);
  const CudnnConvolution convolution = make_convolution(geometry.options, math_for(type));
  int room = 0, count = 0;
  check_cudnn(Pass::most(handle, &room), "cudnnGetConvolution...AlgorithmMaxCount");
  std::vector<typename Pass::Offer> offers(static_cast<std::size_t>(room));
  cudnnStatus_t answer = Pass::ask(handle, plan, convolution.get(), room, &count, offers.data());
  if (is_unsupported(answer)) return {};
  check_cudnn(answer, "choosing a convolution's algorithm");
  std::vector<ConvolutionOffer> result = offers_of(offers, count, type);
  if (cuda_settings().autotune) {
    std::size_t workspace = 1;  // cuDNN skips algorithms that need more than this
    for (int i = 0; i < count; ++i) {
      const std::size_t bytes = offers[static_cast<std::size_t>(i)].memory;
      if (bytes <= cuda_settings().workspace_limit) workspace = std::max(workspace, bytes);
    }
    const Scratch scratch{
        context.allocate(bytes_of(geometry.x, type)), context.allocate(bytes_of(geometry.w, type)),
        context.allocate(bytes_of(geometry.y, type)), context.allocate(workspace)};
    // The first time includes loading an algorithm's code: all are timed again.
    for (int round = 0; round < timing_rounds; ++round) {
      report_progress();
      answer = Pass::time(handle, plan, convolution.get(), room, &count, offers.data(), scratch);
      if (is_unsupported(answer)) return {};
      check_cudnn(answer, "timing a convolution's algorithms");
      std::vector<ConvolutionOffer> timed = offers_of(offers, count, type);
      result = round == 0 ? std::move(timed) : fastest_times(std::move(result), timed);
    }
  }
  return result;
}

template <class Pass>
std::unique_ptr<ConvolutionPlan> make_plan(CudaContext& context,
                                           const ConvolutionGeometry& geometry, const Form& form) {
  auto plan = std::make_unique<ConvolutionPlan>(geometry, form.type, form.layout, form.inputs);
  const CudaSettings& settings = cuda_settings();
  const ConvolutionRules rules{settings.deterministic, settings.allow_tf32,
                               settings.workspace_limit};
  for (const ConvolutionOffer& offer : allowed_offers(
           offers_for<Pass>(context, *plan, with_inputs(geometry, form.inputs), form.type),
           rules)) {
    ConvolutionPlan::Choice choice{
        offer.algorithm, 0,
        make_convolution(geometry.options, static_cast<cudnnMathType_t>(offer.math)),
        offer.milliseconds,
        std::is_same_v<Pass, Forward> ? std::make_unique<FusionTrial>() : nullptr};
    // cuDNN reported the memory for the math type that was requested.
    const cudnnStatus_t answer =
        Pass::workspace(cudnn_handle(context), *plan, choice.convolution.get(), choice.algorithm,
                        &choice.workspace_bytes);
    if (is_unsupported(answer)) continue;
    check_cudnn(answer, "cudnnGetConvolution...WorkspaceSize");
    if (choice.workspace_bytes <= settings.workspace_limit) plan->add(std::move(choice));
  }
  return plan;
}

// Tensor cores take 16 bytes of channels at a time. With others cuDNN's algorithms are many times
// slower (H100: 689 us against 27 for the filter's gradient of 128 images of 3 x 32 x 32).
std::int64_t inputs_for_tensor_cores(DType type, const ConvolutionWork& work) {
  const std::int64_t inputs = work.geometry.x[1];
  const auto together = static_cast<std::int64_t>(16 / size_of(type));
  if (work.geometry.options.groups > 1 || work.pass == ConvolutionPass::backward_data)
    return inputs;
  return (inputs + together - 1) / together * together;
}

// Best first.
std::vector<Form> forms_for(const ConvolutionWork& work) {
  const Shape& w = work.geometry.w;
  const std::int64_t inputs = work.geometry.x[1];
  std::vector<Form> forms;
  const auto add = [&](DType type, bool last, std::int64_t channels) {
    if (!last)
      forms.push_back({type, nullptr, channels});
    else if (w[2] * w[3] <= kernels::most_filter_places)
      forms.push_back({type, channels_last(), channels});
  };
  const auto add_type = [&](DType type) {
    const bool on_tensor_cores = math_for(type) != CUDNN_FMA_MATH;
    const std::int64_t padded = inputs_for_tensor_cores(type, work);
    if (on_tensor_cores && padded != inputs) add(type, true, padded);
    add(type, on_tensor_cores, inputs);
    add(type, !on_tensor_cores, inputs);
  };
  add_type(work.type);
  if (work.type != DType::float32) add_type(DType::float32);
  return forms;
}

// The first plan that has an algorithm, from the form of this number on; nullptr: none has.
std::unique_ptr<ConvolutionPlan> make_plan(CudaContext& context, const ConvolutionWork& work,
                                           std::size_t first_form) {
  const auto make = work.pass == ConvolutionPass::forward         ? make_plan<Forward>
                    : work.pass == ConvolutionPass::backward_data ? make_plan<BackwardData>
                                                                  : make_plan<BackwardWeights>;
  const std::vector<Form> forms = forms_for(work);
  for (std::size_t number = first_form; number < forms.size(); ++number) {
    auto plan = make(context, work.geometry, forms[number]);
    if (plan->is_empty()) continue;
    plan->set_form(number);
    return plan;
  }
  return nullptr;
}

[[noreturn]] void fail_without_plan(const ConvolutionWork& work) {
  fail(ErrorKind::unavailable,
       "cuDNN {} has no {}algorithm for {} in {} within {} MiB of workspace", cudnnGetVersion(),
       cuda_settings().deterministic ? "deterministic " : "", work.geometry.text(),
       work.type == DType::float32 ? "float32" : fmt::format("{} or float32", name_of(work.type)),
       cuda_settings().workspace_limit >> 20);
}

// Everything that a plan depends on.
using Key = std::array<std::int64_t, 22>;

Key key_of(const CudaContext& context, const ConvolutionWork& work) {
  const Conv2dOptions& o = work.geometry.options;
  const CudaSettings& settings = cuda_settings();
  const Shape &x = work.geometry.x, &w = work.geometry.w;
  const auto pass = static_cast<std::int64_t>(work.pass),
             type = static_cast<std::int64_t>(work.type),
             limit = static_cast<std::int64_t>(settings.workspace_limit);
  const std::int64_t device = context.device().index, tf32 = settings.allow_tf32,
                     timed = settings.autotune, fixed = settings.deterministic;
  return {device,       pass,     type, x[0],       x[1],       x[2],    x[3],    w[0],
          w[1],         w[2],     w[3], o.stride_h, o.stride_w, o.pad_h, o.pad_w, o.dilation_h,
          o.dilation_w, o.groups, tf32, timed,      fixed,      limit};
}

// Of a process. Never destroyed, because their descriptors must not outlive any part of cuDNN.
struct Plans {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<ConvolutionPlan>> in_use;
  std::vector<std::unique_ptr<ConvolutionPlan>> given_up;  // other threads may be running them
};

Plans& plans() {
  static auto* const all = new Plans;
  return *all;
}

const char* order_of(const ConvolutionPlan& plan) {
  return plan.layout() ? "channels last" : "plain";
}

void log_plan(const ConvolutionWork& work, const ConvolutionPlan& plan) {
  constexpr std::array names = {"forward", "backward data", "backward weights"};
  log_verbose("{} in {}, {}: {}", work.geometry.text(), name_of(work.type),
              names[static_cast<std::size_t>(work.pass)], plan.text());
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(const ConvolutionGeometry& geometry, DType type,
                                 std::shared_ptr<const Layout> layout, std::int64_t inputs)
    : type_(type), layout_(std::move(layout)), inputs_(inputs) {
  const cudnnTensorFormat_t format = layout_ ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const ConvolutionGeometry computed = with_inputs(geometry, inputs);
  x_ = cudnn_tensor(computed.x, type, format);
  y_ = cudnn_tensor(computed.y, type, format);
  bias_ = cudnn_tensor({1, computed.y[1], 1, 1}, type, format);
  w_ = cudnn_filter(computed.w, type, format);
}

std::string ConvolutionPlan::text() const {
  const Choice& first = choices_.front();
  return fmt::format("algorithm {} of cuDNN, {}, {}, {} KiB of workspace{}", first.algorithm,
                     name_of(type_), layout_ ? "channels last" : "plain",
                     first.workspace_bytes >> 10,
                     first.milliseconds < 0 ? "" : fmt::format(", {:.3f} ms", first.milliseconds));
}

void ConvolutionPlan::run(CudaContext& context, const AlgorithmTrials::Work& work,
                          const Run& run) const {
  trials_.run(context, work, choices_.size(), [&](std::size_t number) {
    using Outcome = AlgorithmTrials::Outcome;
    const Choice& choice = choices_[number];
    const auto workspace =
        choice.workspace_bytes > 0 ? context.allocate(choice.workspace_bytes) : nullptr;
    const cudnnStatus_t answer = run(choice, workspace ? workspace->data() : nullptr);
    if (answer == CUDNN_STATUS_SUCCESS) [[likely]]
      return AlgorithmTrials::Answer{};
    // Any other status is not the fault of an algorithm.
    if (!is_unsupported(answer) && !is_failure(answer)) check_cudnn(answer, work.call);
    return AlgorithmTrials::Answer{
        is_unsupported(answer) ? Outcome::refused : Outcome::failed,
        fmt::format("algorithm {} of cuDNN, {}: {}", choice.algorithm,
                    layout_ ? "channels last" : "plain", cudnn_text(answer))};
  });
}

const ConvolutionPlan& convolution_plan(CudaContext& context, const ConvolutionWork& work) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  auto& plan = all.in_use[key_of(context, work)];
  if (plan == nullptr) {
    plan = make_plan(context, work, 0);
    if (plan == nullptr) fail_without_plan(work);
    log_plan(work, *plan);
  }
  return *plan;
}

const ConvolutionPlan* replace_convolution_plan(CudaContext& context, const ConvolutionWork& work,
                                                const ConvolutionPlan& failed) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  auto& plan = all.in_use[key_of(context, work)];
  if (plan.get() != &failed) return plan.get();  // another thread was first
  auto next = make_plan(context, work, failed.form() + 1);
  if (next == nullptr) return nullptr;
  log_warning(
      "{}: no algorithm of cuDNN's for {}, {} runs here; from now on it is computed in {}, {}",
      work.geometry.text(), name_of(failed.type()), order_of(failed), name_of(next->type()),
      order_of(*next));
  all.given_up.push_back(std::exchange(plan, std::move(next)));
  log_plan(work, *plan);
  return plan.get();
}

}  // namespace tasuki

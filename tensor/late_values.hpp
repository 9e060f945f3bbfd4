// Late values: numbers that the host computes again in each step and that device work reads.
//
// A GPU may record a training step and replay it. In a replay the host code between the kernels is
// not called, and a number that was passed to a kernel keeps the value it had when the step was
// recorded. A number that changes from step to step is therefore a member of the object that
// determines it:
//
//   class Noise : public ArrayHook {
//     LateValues<float> noise_{[this](std::span<float> out) { out[0] = noise_at(steps_ + 1); }};
//     AfterStep counted_{[this] { ++steps_; }};
//     void apply(const GradientArrays& arrays) override {
//       add_noise(arrays.gradients, noise_.on(arrays.device(), 1));
//       counted_.request();
//     }
//   };
//
// The values of a batch's fields need no late values, because training/recording carries them.
// Random functions get ids and epoch of the batch from nn/random.hpp; work that reads them on the
// host is not recorded (dataset/batch.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <typeinfo>

#include "tensor/tensor.hpp"

namespace tasuki {

namespace detail {
// These outlive their owners in recordings, where they show that the owner is gone.
class LateState;
class AfterState;
struct RevisionState;

// `function`: the type of what the owner gave, which names it in errors.
std::shared_ptr<LateState> make_late_state(DType dtype, const std::type_info& function,
                                           std::function<void(const Tensor& host)> fill);
void end_late_state(LateState& state);
Tensor late_values_on(const std::shared_ptr<LateState>& state, Device device, std::int64_t count);
Tensor late_values_if_carried(const std::shared_ptr<LateState>& state, Device device,
                              std::int64_t count);
const Tensor& late_values_on_host(LateState& state, std::int64_t count);
}  // namespace detail

// A vector in device memory that a function on the host fills, once in each step that uses it.
//
// In a step the values are drawn at its beginning, or at the first on() if the step is not known to
// use them, and never twice, however often the step's work is called. So `fill` reads the state at
// the beginning of a step, changes nothing, and always writes all of `out`. Because it is given
// once, when its owner is made, it can only read the owner's members, nothing of a single step.
//
// With TASUKI_CHECK_LATE_VALUES=1 in the environment, as in the tests, each draw is done twice, and
// once more wherever the values are asked for; a difference is an error that names the owner. It
// shows a function that changes something, reads what a step changes, or leaves a value out.
//
// Used by one thread at a time. T: float, double, std::int32_t, std::int64_t.
template <class T>
class LateValues {
 public:
  using Fill = std::function<void(std::span<T> out)>;
  explicit LateValues(const Fill& fill)
      : state_(detail::make_late_state(dtype_of<T>, fill.target_type(),
                                       [fill](const Tensor& host) { fill(host.span<T>()); })) {}
  // Recordings that use the values are dropped.
  ~LateValues() { detail::end_late_state(*state_); }
  LateValues(const LateValues&) = delete;
  LateValues& operator=(const LateValues&) = delete;

  // `count` values in the memory of `device`, valid until the step ends. Outside of a step they are
  // filled and sent at each call. In steps of training/recording all values of a step travel in one
  // copy, from its second run on. Two counts in one step are an error.
  Tensor on(Device device, std::int64_t count) const {
    return detail::late_values_on(state_, device, count);
  }
  // on(), if the values are sent with a step's other numbers, at no cost; otherwise undefined, for
  // work that can also take numbers from the host.
  Tensor on_if_carried(Device device, std::int64_t count) const {
    return detail::late_values_if_carried(state_, device, count);
  }
  // The values on the host, valid until they are drawn again. Refused if steps are recorded on a
  // GPU, because the host would read them only once.
  std::span<const T> on_host(std::int64_t count) const {
    return detail::late_values_on_host(*state_, count).template span<T>();
  }

 private:
  std::shared_ptr<detail::LateState> state_;
};

// An action after each successful step, usually counting it. The action is called once for each
// such step in which it was requested, replays included, however often the step's work asked for
// it; outside of a step at once. Several actions are called in the order in which they were first
// requested.
class AfterStep {
 public:
  explicit AfterStep(std::function<void()> action);
  // Recordings that request it are dropped.
  ~AfterStep();
  AfterStep(const AfterStep&) = delete;
  AfterStep& operator=(const AfterStep&) = delete;
  void request() const;

 private:
  std::shared_ptr<detail::AfterState> state_;
};

// A step of the calling thread, on any device. Opened by code that runs steps (Optimizer::update,
// training/recording); a nested scope is part of the outer one. Without succeeded() on the
// outermost one, requested actions are not called, and the next step draws the same values again.
class StepScope {
 public:
  StepScope();
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  void succeeded();

  static bool is_open() { return number() != 0; }
  // Different for each outermost scope of any thread; 0 outside of a scope.
  static std::uint64_t number();
};

// A version of an array or a setting that recorded work depends on and that may be replaced. Each
// replay compares the revisions that the recording has used; if one differs, or its object is gone,
// the recording is dropped. Parameters, optimizers and late values do so already. A layer needs one
// for memory that it replaces from time to time; memory that changes in every step is updated in
// place.
class Revision {
 public:
  Revision();
  ~Revision();
  Revision(const Revision&) = delete;
  Revision& operator=(const Revision&) = delete;
  // The current step depends on it.
  void use() const;
  // It has changed.
  void advance();

 private:
  std::shared_ptr<detail::RevisionState> state_;
};

// For work that cannot be replayed. In a step of training/recording: such steps are not recorded
// from now on, and --verbose says `reason`; while one is being recorded, it also throws
// RecordingRefused, and the step is done without a recording. Does nothing elsewhere.
void refuse_recording(std::string_view reason);

class RecordingRefused : public Error {
 public:
  explicit RecordingRefused(const std::string& reason) : Error(ErrorKind::unavailable, reason) {}
};

}  // namespace tasuki

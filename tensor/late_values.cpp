#include "tensor/late_values.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "core/environment.hpp"
#include "core/printable.hpp"
#include "tensor/recorder.hpp"

namespace tasuki {
namespace {

struct CurrentStep {
  int depth = 0;
  std::uint64_t number = 0;
  detail::Requests requested;
};

thread_local CurrentStep current_step;
thread_local Recorder* thread_recorder = nullptr;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> made = 0;
  return made.fetch_add(1, std::memory_order_relaxed) + 1;
}

Recorder* recorder_of(Device device) {
  return thread_recorder != nullptr && thread_recorder->device() == device ? thread_recorder
                                                                           : nullptr;
}

bool is_checked() {
  static const bool result = is_switched_on("TASUKI_CHECK_LATE_VALUES");
  return result;
}

std::span<std::byte> bytes_of(const Tensor& host) {
  return {static_cast<std::byte*>(host.raw()), host.bytes()};
}

}  // namespace

// --- values ---

detail::LateState::LateState(DType dtype, const std::type_info& function,
                             std::function<void(const Tensor& host)> fill)
    : dtype_(dtype), function_(function), fill_(std::move(fill)) {
  TASUKI_CHECK(fill_ != nullptr, "late values need a function that fills them");
}

void detail::LateState::ask(std::int64_t count) {
  const std::uint64_t step = StepScope::number();
  TASUKI_CHECK(step == 0 || asked_in_ != step || asked_ == count,
               "{} late values were asked for in a step, and {} before", count, asked_);
  asked_ = count;
  asked_in_ = step;
}

const Tensor& detail::LateState::draw(std::int64_t count) {
  const std::uint64_t step = StepScope::number();
  if (step != 0 && drawn_in_ == step && host_.count() == count) {
    check();
    return host_;
  }
  TASUKI_CHECK(is_alive(), "late values whose owner is gone were asked for");
  // Holders of the previous step's values keep them.
  const Tensor drawn = Tensor::empty({count}, dtype_);
  fill_(drawn);
  host_ = drawn;
  drawn_in_ = step;
  check();
  return host_;
}

void detail::LateState::check() const {
  if (!is_checked() || !is_alive()) return;
  const Tensor again = Tensor::empty(host_.shape(), dtype_);
  // A value that was not written differs, too.
  std::ranges::transform(bytes_of(host_), bytes_of(again).begin(), std::bit_not());
  fill_(again);
  if (std::ranges::equal(bytes_of(host_), bytes_of(again))) return;
  fail(ErrorKind::internal,
       "late values drawn twice in a step differ; the function that fills them, {}, must change "
       "nothing, read nothing that a step changes, and write all values",
       type_name(function_));
}

const Tensor& detail::LateState::send(Device device, std::int64_t count) {
  const std::uint64_t step = StepScope::number();
  const Tensor& drawn = draw(count);
  if (step == 0 || sent_in_ != step || sent_.device() != device) sent_ = drawn.to(device);
  sent_in_ = step;
  return sent_;
}

std::shared_ptr<detail::LateState> detail::make_late_state(
    DType dtype, const std::type_info& function, std::function<void(const Tensor& host)> fill) {
  return std::make_shared<LateState>(dtype, function, std::move(fill));
}

void detail::end_late_state(LateState& state) {
  state.end();
}

Tensor detail::late_values_on(const std::shared_ptr<LateState>& state, Device device,
                              std::int64_t count) {
  state->ask(count);
  if (Recorder* const recorder = recorder_of(device)) return recorder->place(state, count);
  refuse_recording("numbers that differ from step to step are read on another device");
  return device.is_cpu() ? state->draw(count) : state->send(device, count);
}

Tensor detail::late_values_if_carried(const std::shared_ptr<LateState>& state, Device device,
                                      std::int64_t count) {
  Recorder* const recorder = recorder_of(device);
  if (recorder == nullptr) return {};
  state->ask(count);
  return recorder->place(state, count);
}

const Tensor& detail::late_values_on_host(LateState& state, std::int64_t count) {
  refuse_recording("numbers that differ from step to step are read by the host");
  state.ask(count);
  return state.draw(count);
}

// --- steps ---

StepScope::StepScope() {
  if (current_step.depth++ == 0) current_step.number = next_number();
}

StepScope::~StepScope() {
  if (--current_step.depth > 0) return;
  current_step.number = 0;
  current_step.requested.clear();
}

void StepScope::succeeded() {
  if (current_step.depth > 1) return;
  for (const auto& action : std::exchange(current_step.requested, {})) action->act();
}

std::uint64_t StepScope::number() {
  return current_step.number;
}

const detail::Requests& detail::requested_in_step() {
  return current_step.requested;
}

void detail::request_after_step(const std::shared_ptr<AfterState>& action) {
  if (!StepScope::is_open()) return action->act();
  if (!std::ranges::count(current_step.requested, action)) current_step.requested.push_back(action);
}

AfterStep::AfterStep(std::function<void()> action)
    : state_(std::make_shared<detail::AfterState>(std::move(action))) {
  TASUKI_CHECK(state_->is_alive(), "what follows a step needs a function that does it");
}

AfterStep::~AfterStep() {
  state_->end();
}

void AfterStep::request() const {
  detail::request_after_step(state_);
}

// --- recordings ---

Revision::Revision() : state_(std::make_shared<detail::RevisionState>()) {}

Revision::~Revision() {
  state_->is_alive = false;
}

void Revision::use() const {
  if (thread_recorder != nullptr && thread_recorder->is_recording()) thread_recorder->use(state_);
}

void Revision::advance() {
  ++state_->number;
}

void refuse_recording(std::string_view reason) {
  if (thread_recorder == nullptr) return;
  thread_recorder->refuse(reason);
  if (thread_recorder->is_recording()) throw RecordingRefused(std::string(reason));
}

RecorderScope::RecorderScope(Recorder& recorder) {
  TASUKI_CHECK(thread_recorder == nullptr, "a step was begun within a step that may be recorded");
  thread_recorder = &recorder;
}

RecorderScope::~RecorderScope() {
  thread_recorder = nullptr;
}

Recorder* current_recorder() {
  return thread_recorder;
}

}  // namespace tasuki

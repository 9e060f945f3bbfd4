// Recorder: the interface between late values (late_values.hpp) and code that runs steps on a
// device (training/recording).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/late_values.hpp"

namespace tasuki {

namespace detail {

class LateState {
 public:
  LateState(DType dtype, const std::type_info& function,
            std::function<void(const Tensor& host)> fill);

  bool is_alive() const { return fill_ != nullptr; }
  void end() { fill_ = nullptr; }
  DType dtype() const { return dtype_; }
  // Notes that this step asks for so many; an error if it has asked for another number before.
  void ask(std::int64_t count);
  // The values of this step on the host, drawn if so many were not yet; outside of a step, drawn
  // anew.
  const Tensor& draw(std::int64_t count);
  // Where late values are checked: fills values of this step anew and compares.
  void check() const;
  // The values of this step on a device, sent once per step.
  const Tensor& send(Device device, std::int64_t count);

 private:
  DType dtype_;
  const std::type_info& function_;
  std::function<void(const Tensor& host)> fill_;
  Tensor host_, sent_;
  std::int64_t asked_ = 0;
  std::uint64_t asked_in_ = 0, drawn_in_ = 0, sent_in_ = 0;  // StepScope::number()
};

class AfterState {
 public:
  explicit AfterState(std::function<void()> action) : action_(std::move(action)) {}
  bool is_alive() const { return action_ != nullptr; }
  void end() { action_ = nullptr; }
  void act() const {
    if (action_) action_();
  }

 private:
  std::function<void()> action_;
};

struct RevisionState {
  std::uint64_t number = 0;
  bool is_alive = true;
};

// In this thread's step.
using Requests = std::vector<std::shared_ptr<AfterState>>;
const Requests& requested_in_step();
void request_after_step(const std::shared_ptr<AfterState>& action);

}  // namespace detail

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual Device device() const = 0;
  // Whether work is recorded instead of done.
  virtual bool is_recording() const = 0;
  // Memory on device() that has the values of this step when work that is queued next runs.
  virtual Tensor place(const std::shared_ptr<detail::LateState>& values, std::int64_t count) = 0;
  virtual void use(const std::shared_ptr<const detail::RevisionState>& revision) = 0;
  virtual void refuse(std::string_view reason) = 0;
};

// While it lives, its thread queues a step's work under `recorder`. Nesting is an error, because a
// recorded step is not part of another one.
class RecorderScope {
 public:
  explicit RecorderScope(Recorder& recorder);
  ~RecorderScope();
  RecorderScope(const RecorderScope&) = delete;
  RecorderScope& operator=(const RecorderScope&) = delete;
};

// Of this thread; null without one.
Recorder* current_recorder();

}  // namespace tasuki

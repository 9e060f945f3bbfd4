// Shifts change hyper-parameters during training, like Chainer's extensions of these names. Each
// counts how often it was triggered (each iteration by default; attach it with another trigger as
// needed) and continues from there after a resume. A shift that is not in the snapshot continues as
// if it had been there from the start, which its trigger must be able to compute: every()'s can,
// others are refused. scheduled_shift does not count: it follows the position in the data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training/extension.hpp"

namespace tasuki {

// Sets the hyper-parameter `attribute` ("lr", "alpha", "momentum", ...) of the updater's optimizers
// to value(0) before the first iteration and to value(t) when triggered.
class Shift : public Extension {
 public:
  // `value` gets the initial value of the (first optimizer's) hyper-parameter, as found before the
  // first iteration.
  using Schedule = std::function<double(double initial, std::int64_t t)>;
  enum class Time : std::uint8_t {
    triggers,  // t counts triggers
    position,  // t is Updater::steps_to_here(), also after a resume with other batches
  };
  Shift(std::string name, std::string attribute, Schedule value, Time time = Time::triggers);

  std::string default_name() const override { return name_; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void join_late(Trainer& trainer, std::optional<std::int64_t> times_fired) override;
  void serialize(const Serializer& serializer) override;

  // The schedule's initial value; nothing until it is found or loaded.
  std::optional<double> initial() const { return initial_; }
  // Sets another initial value, from the next iteration on. Call it before the run begins.
  void set_initial(double value) { initial_ = value; }

 private:
  void set_value(Trainer& trainer);

  std::string name_, attribute_;
  Schedule value_;
  Time time_;
  std::optional<double> initial_;
  std::int64_t t_ = 0;
};

// init * rate^t, limited by `target`; if `init` is omitted, it is the value found.
std::unique_ptr<Shift> exponential_shift(std::string attribute, double rate,
                                         std::optional<double> init = std::nullopt,
                                         std::optional<double> target = std::nullopt);
// Linear from `from` at trigger number `begin` to `to` at number `end`.
std::unique_ptr<Shift> linear_shift(std::string attribute, double from, double to,
                                    std::int64_t begin, std::int64_t end);
// init * gamma^floor(t / step), limited by `target`.
std::unique_ptr<Shift> step_shift(std::string attribute, double gamma, std::int64_t step,
                                  std::optional<double> init = std::nullopt,
                                  std::optional<double> target = std::nullopt);
// Linear from `start` to the value found, over `iterations` triggers, then constant.
std::unique_ptr<Shift> warmup_shift(std::string attribute, double start, std::int64_t iterations,
                                    std::optional<double> init = std::nullopt);

// Warm-up, drops and decay in one (two shifts of one hyper-parameter would overwrite each other).
// Iterations count as if every epoch had Updater::steps_per_epoch() of them.
struct RateSchedule {
  // The rate rises in equal steps and reaches the value found in this iteration, counted from 1
  // (gradual warm-up: Goyal et al., arXiv 1706.02677, section 2.2).
  std::int64_t warmup = 0;
  // After each of these numbers of iterations the rate is multiplied by gamma.
  std::vector<std::int64_t> drops;
  double gamma = 1;
  // From the end of the warm-up on, the rate falls to 0 after `length` iterations. With x from 0 to
  // 1: cosine: (1 + cos(pi x)) / 2 (Loshchilov and Hutter, arXiv 1608.03983, without restarts),
  // polynomial: (1 - x)^power.
  enum class Decay { none, cosine, polynomial } decay = Decay::none;
  std::int64_t length = 0;
  double power = 1;
};
std::unique_ptr<Shift> scheduled_shift(std::string attribute, RateSchedule schedule);

}  // namespace tasuki

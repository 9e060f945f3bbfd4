#include "training/extensions/shift.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "core/error.hpp"
#include "saving/serializer.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// Limited by `target`, whichever side the factor moves to.
double bounded(double value, double factor, std::optional<double> target) {
  if (!target) return value;
  const bool grows = factor > 1;
  return grows == (*target > 0) ? std::min(value, *target) : std::max(value, *target);
}

// The rate's factor after t iterations.
double decay_after(const RateSchedule& schedule, std::int64_t t) {
  if (schedule.decay == RateSchedule::Decay::none || t < schedule.warmup) return 1;
  if (t >= schedule.length) return 0;
  const double x = static_cast<double>(t - schedule.warmup) /
                   static_cast<double>(schedule.length - schedule.warmup);
  if (schedule.decay == RateSchedule::Decay::polynomial) return std::pow(1 - x, schedule.power);
  return (1 + std::cos(std::numbers::pi * x)) / 2;
}

void check_factor(const char* what, double factor) {
  if (!(factor >= 0) || !std::isfinite(factor))
    fail_everywhere(ErrorKind::usage, "{} must be a number of at least 0, not {}", what, factor);
}

}  // namespace

Shift::Shift(std::string name, std::string attribute, Schedule value, Time time)
    : name_(std::move(name)),
      attribute_(std::move(attribute)),
      value_(std::move(value)),
      time_(time) {}

void Shift::set_value(Trainer& trainer) {
  if (time_ == Time::position) t_ = trainer.updater().steps_to_here();
  for (const NamedOptimizer& each : trainer.updater().optimizers())
    each.optimizer->set(attribute_, value_(*initial_, t_));
}

void Shift::initialize(Trainer& trainer) {
  if (!initial_) initial_ = trainer.updater().optimizer().get(attribute_);
  set_value(trainer);
}

void Shift::run(Trainer& trainer) {
  ++t_;
  set_value(trainer);
}

void Shift::join_late(Trainer& trainer, std::optional<std::int64_t> times_fired) {
  if (!times_fired && time_ == Time::triggers)
    fail_everywhere(ErrorKind::config,
                    "{} is not in the snapshot, and its trigger cannot tell how often it would "
                    "have fired before: attach it with every()",
                    name_);
  t_ = times_fired.value_or(0);
  // A snapshot may be found and loaded after initialize().
  if (initial_) set_value(trainer);
}

void Shift::serialize(const Serializer& serializer) {
  // Not found yet in a snapshot from before the first iteration.
  double initial = initial_.value_or(std::numeric_limits<double>::quiet_NaN());
  serialize_count(serializer, "_t", t_);
  serializer("initial", initial);
  if (serializer.is_loading() && std::isinf(initial))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected a number at the start, found {}",
                    name_, initial);
  initial_ = std::isnan(initial) ? std::nullopt : std::optional(initial);
}

std::unique_ptr<Shift> exponential_shift(std::string attribute, double rate,
                                         std::optional<double> init, std::optional<double> target) {
  check_factor("exponential_shift's rate", rate);
  return std::make_unique<Shift>(
      "ExponentialShift", std::move(attribute), [=](double found, std::int64_t t) {
        const double value = init.value_or(found) * std::pow(rate, static_cast<double>(t));
        return bounded(value, rate, target);
      });
}

std::unique_ptr<Shift> linear_shift(std::string attribute, double from, double to,
                                    std::int64_t begin, std::int64_t end) {
  if (end <= begin)
    fail_everywhere(ErrorKind::usage, "linear_shift must end after it begins, not at {} after {}",
                    end, begin);
  return std::make_unique<Shift>("LinearShift", std::move(attribute), [=](double, std::int64_t t) {
    if (t <= begin) return from;
    if (t >= end) return to;
    return from + (to - from) * (static_cast<double>(t - begin) / static_cast<double>(end - begin));
  });
}

std::unique_ptr<Shift> step_shift(std::string attribute, double gamma, std::int64_t step,
                                  std::optional<double> init, std::optional<double> target) {
  check_factor("step_shift's gamma", gamma);
  if (step < 1)
    fail_everywhere(ErrorKind::usage, "step_shift's step must be positive, not {}", step);
  return std::make_unique<Shift>(
      "StepShift", std::move(attribute), [=](double found, std::int64_t t) {
        const std::int64_t steps = t / step;
        const double value = init.value_or(found) * std::pow(gamma, static_cast<double>(steps));
        return bounded(value, gamma, target);
      });
}

std::unique_ptr<Shift> warmup_shift(std::string attribute, double start, std::int64_t iterations,
                                    std::optional<double> init) {
  if (iterations < 1)
    fail_everywhere(ErrorKind::usage, "warmup_shift needs at least one iteration, not {}",
                    iterations);
  return std::make_unique<Shift>(
      "WarmupShift", std::move(attribute), [=](double found, std::int64_t t) {
        const double end = init.value_or(found);
        if (t >= iterations) return end;
        return start + (end - start) * (static_cast<double>(t) / static_cast<double>(iterations));
      });
}

std::unique_ptr<Shift> scheduled_shift(std::string attribute, RateSchedule schedule) {
  check_factor("a rate schedule's gamma", schedule.gamma);
  check_factor("a rate schedule's power", schedule.power);
  if (schedule.decay != RateSchedule::Decay::none && schedule.length < 1)
    fail_everywhere(ErrorKind::usage, "a rate schedule needs at least one iteration, not {}",
                    schedule.length);
  return std::make_unique<Shift>(
      "RateSchedule", std::move(attribute),
      [schedule = std::move(schedule)](double found, std::int64_t t) {
        const auto drops =
            std::ranges::count_if(schedule.drops, [t](std::int64_t drop) { return drop <= t; });
        const double rate =
            found * std::pow(schedule.gamma, static_cast<double>(drops)) * decay_after(schedule, t);
        if (t >= schedule.warmup) return rate;
        return rate * (static_cast<double>(t + 1) / static_cast<double>(schedule.warmup));
      },
      Shift::Time::position);
}

}  // namespace tasuki

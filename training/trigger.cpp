#include "training/trigger.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// The position of a run after its last iteration and before it, in iterations or epochs. A function
// of the position in the data alone, so that all ranks and resumed runs agree.
struct Passage {
  double before, now;
};

Passage passage(const Trainer& trainer, Unit unit) {
  const Updater& updater = trainer.updater();
  if (unit == Unit::iteration) {
    const auto iteration = static_cast<double>(updater.iteration());
    return {iteration - 1, iteration};
  }
  const auto steps = static_cast<double>(updater.steps_per_epoch());
  const auto done = static_cast<double>(updater.steps_to_here());
  return {(done - 1) / steps, done / steps};
}

// Positions are quotients of integers, but a period of 0.1 epochs is not exact in binary.
constexpr double rounding = 1e-9;

class Interval final : public Trigger {
 public:
  Interval(double period, Unit unit) : period_(period), unit_(unit) {
    if (!(period > 0) || !std::isfinite(period))
      fail_everywhere(ErrorKind::usage, "a trigger's period must be positive, not {}", period);
  }
  bool fires(Trainer& trainer) override {
    const auto [before, now] = passage(trainer, unit_);
    return std::floor(now / period_ + rounding) > std::floor(before / period_ + rounding);
  }
  std::optional<std::int64_t> times_fired(const Trainer& trainer) const override {
    const double periods = std::floor(passage(trainer, unit_).now / period_ + rounding);
    // Several periods that end in one iteration fire once.
    return std::min(static_cast<std::int64_t>(periods), trainer.updater().iteration());
  }

 private:
  double period_;
  Unit unit_;
};

class Once final : public Trigger {
 public:
  bool fires(Trainer& trainer) override { return trainer.updater().iteration() == 1; }
  std::optional<std::int64_t> times_fired(const Trainer& trainer) const override {
    return std::min<std::int64_t>(trainer.updater().iteration(), 1);
  }
};

class Points final : public Trigger {
 public:
  Points(std::vector<double> points, Unit unit) : points_(std::move(points)), unit_(unit) {}
  bool fires(Trainer& trainer) override {
    const Passage at = passage(trainer, unit_);
    return std::any_of(points_.begin(), points_.end(), [&](double point) {
      return at.before + rounding < point && point <= at.now + rounding;
    });
  }
  std::optional<std::int64_t> times_fired(const Trainer& trainer) const override {
    const double now = passage(trainer, unit_).now + rounding;
    const auto passed = std::ranges::count_if(points_, [&](double point) { return point <= now; });
    // Several points in one iteration fire once.
    return std::min<std::int64_t>(passed, trainer.updater().iteration());
  }

 private:
  std::vector<double> points_;
  Unit unit_;
};

class Stop final : public Trigger {
 public:
  explicit Stop(TrainingLength length) : length_(length) {}
  bool fires(Trainer& trainer) override { return is_reached(length_, trainer); }
  TrainingLength length() const override { return length_; }

 private:
  TrainingLength length_;
};

}  // namespace

bool is_reached(const TrainingLength& length, const Trainer& trainer) {
  return (length.epochs && passage(trainer, Unit::epoch).now + rounding >= *length.epochs) ||
         (length.iterations && trainer.updater().iteration() >= *length.iterations);
}

std::unique_ptr<Trigger> every(double period, Unit unit) {
  return std::make_unique<Interval>(period, unit);
}

std::unique_ptr<Trigger> once() {
  return std::make_unique<Once>();
}

std::unique_ptr<Trigger> at(std::vector<double> points, Unit unit) {
  return std::make_unique<Points>(std::move(points), unit);
}

std::unique_ptr<Trigger> stop_after(double epochs, std::optional<std::int64_t> max_iterations) {
  return std::make_unique<Stop>(TrainingLength{epochs, max_iterations});
}

}  // namespace tasuki

// Triggers that watch an observed value: best so far, and early stopping.
#include "core/log.hpp"
#include "saving/serializer.hpp"
#include "training/trainer.hpp"
#include "training/trigger.hpp"
#include "training/watched_value.hpp"

namespace tasuki {
namespace {

class BestValue final : public Trigger {
 public:
  BestValue(std::string key, Better better, std::unique_ptr<Trigger> check)
      : value_(std::move(key), better, std::move(check)) {}
  bool fires(Trainer& trainer) override {
    return value_.look(trainer) == WatchedValue::Finding::better;
  }
  void serialize(const Serializer& serializer) override { value_.serialize(serializer); }

 private:
  WatchedValue value_;
};

Better direction_of(const EarlyStopping& options) {
  using Mode = EarlyStopping::Mode;
  if (options.mode == Mode::automatic) return better_of(options.monitor);
  return options.mode == Mode::max ? Better::larger : Better::smaller;
}

class EarlyStop final : public Trigger {
 public:
  explicit EarlyStop(const EarlyStopping& options)
      : value_(options.monitor, direction_of(options),
               every(options.check_every_epochs, Unit::epoch)),
        patience_(options.patience),
        length_{options.max_epochs, options.max_iterations} {
    value_.demand("early stopping");
  }

  bool fires(Trainer& trainer) override {
    switch (value_.look(trainer)) {
      case WatchedValue::Finding::no_check:
      case WatchedValue::Finding::no_value:
        break;
      case WatchedValue::Finding::better:
        waited_ = 0;
        break;
      case WatchedValue::Finding::not_better:
        ++waited_;
        break;
    }
    if (is_early() && trainer.is_root())
      log_info("stopped early: {} was not better than {:.6g} for {} checks", value_.key(),
               value_.best().mean, waited_);
    return is_over(trainer);
  }

  bool is_over(const Trainer& trainer) const override {
    return is_early() || is_reached(length_, trainer);
  }
  TrainingLength length() const override { return length_; }
  void serialize(const Serializer& serializer) override {
    std::int64_t waited = waited_;
    serialize_count(serializer, "waited", waited);
    if (value_.serialize(serializer["monitor"])) waited_ = waited;
  }

 private:
  bool is_early() const { return waited_ >= patience_; }

  WatchedValue value_;
  std::int64_t patience_;
  std::int64_t waited_ = 0;  // checks without a better value
  TrainingLength length_;
};

}  // namespace

std::unique_ptr<Trigger> on_min_value(std::string key, std::unique_ptr<Trigger> check) {
  return std::make_unique<BestValue>(std::move(key), Better::smaller, std::move(check));
}

std::unique_ptr<Trigger> on_max_value(std::string key, std::unique_ptr<Trigger> check) {
  return std::make_unique<BestValue>(std::move(key), Better::larger, std::move(check));
}

std::unique_ptr<Trigger> early_stopping(const EarlyStopping& options) {
  return std::make_unique<EarlyStop>(options);
}

}  // namespace tasuki

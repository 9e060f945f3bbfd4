// Triggers that watch an observed value: best so far, and early stopping.
#include <cmath>
#include <limits>

#include "tasuki/core/error.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/trainer.hpp"
#include "tasuki/training/trigger.hpp"

namespace tasuki {
namespace {

enum class Better { smaller, larger };

// Mean of one value between checks, over all ranks, and the best of these means.
class Monitor {
 public:
  Monitor(std::string key, Better better, std::unique_ptr<Trigger> check)
      : key_(std::move(key)), better_(better), check_(std::move(check)) {}

  enum class Finding { no_check, not_observed, better, not_better };
  Finding look(Trainer& trainer) {
    pending_.add_value_of(trainer.observation(), key_);
    if (!check_->fires(trainer)) return Finding::no_check;
    const auto mean = pending_.over_ranks(trainer.communicator()).mean(key_);
    pending_.clear();
    if (!mean) return Finding::not_observed;
    const bool beats = better_ == Better::larger ? *mean > best_ : *mean < best_;
    const bool improves = beats || (has_best_ == 0 && !std::isnan(*mean));
    if (!improves) return Finding::not_better;
    best_ = *mean;
    has_best_ = 1;
    return Finding::better;
  }

  const std::string& key() const { return key_; }
  double best() const { return best_; }
  // For triggers that need a value at each check.
  [[noreturn]] void fail_without_value(const char* who, const Trainer& trainer) const {
    fail_everywhere(ErrorKind::usage,
                    "{} watches \"{}\", which was not observed up to iteration {}", who, key_,
                    trainer.updater().iteration());
  }
  // Loading: whether the saved state belongs to this value; that of another value is ignored.
  bool serialize(const Serializer& serializer) {
    std::string key = key_;
    if (!serializer.is_loading() || serializer.contains("key")) serializer("key", key);
    if (key != key_) return false;
    serializer("best", best_);
    serializer("has_best", has_best_);
    pending_.serialize(serializer["pending"]);
    if (!serializer.is_loading() || serializer.contains("check"))
      check_->serialize(serializer["check"]);
    return true;
  }

 private:
  std::string key_;
  Better better_;
  std::unique_ptr<Trigger> check_;
  Observation pending_;
  double best_ = 0;
  std::int64_t has_best_ = 0;
};

enum class WithoutValue { is_ignored, is_error };

class BestValue final : public Trigger {
 public:
  BestValue(std::string key, Better better, std::unique_ptr<Trigger> check, WithoutValue missing)
      : monitor_(std::move(key), better, std::move(check)), missing_(missing) {}
  bool fires(Trainer& trainer) override {
    const Monitor::Finding finding = monitor_.look(trainer);
    if (finding == Monitor::Finding::not_observed && missing_ == WithoutValue::is_error)
      monitor_.fail_without_value("the best value", trainer);
    return finding == Monitor::Finding::better;
  }
  void serialize(const Serializer& serializer) override { monitor_.serialize(serializer); }

 private:
  Monitor monitor_;
  WithoutValue missing_;
};

// Chainer's "auto".
Better better_of(const std::string& key) {
  return key.find("accuracy") != std::string::npos ? Better::larger : Better::smaller;
}

Better better_of(const EarlyStopping& options) {
  using Mode = EarlyStopping::Mode;
  if (options.mode == Mode::automatic) return better_of(options.monitor);
  return options.mode == Mode::max ? Better::larger : Better::smaller;
}

class EarlyStop final : public Trigger {
 public:
  explicit EarlyStop(const EarlyStopping& options)
      : monitor_(options.monitor, better_of(options),
                 every(options.check_every_epochs, Unit::epoch)),
        patience_(options.patience),
        length_{options.max_epochs, options.max_iterations} {}

  bool fires(Trainer& trainer) override {
    switch (monitor_.look(trainer)) {
      case Monitor::Finding::no_check:
        break;
      case Monitor::Finding::not_observed:
        monitor_.fail_without_value("early stopping", trainer);
      case Monitor::Finding::better:
        waited_ = 0;
        break;
      case Monitor::Finding::not_better:
        ++waited_;
        break;
    }
    const bool is_early = waited_ >= patience_;
    if (is_early && trainer.is_root())
      log_info("stopped early: {} was not better than {:.6g} for {} checks", monitor_.key(),
               monitor_.best(), waited_);
    return is_early || is_reached(length_, trainer);
  }

  TrainingLength length() const override { return length_; }
  void serialize(const Serializer& serializer) override {
    std::int64_t waited = waited_;
    serializer("waited", waited);
    if (monitor_.serialize(serializer["monitor"])) waited_ = waited;
  }

 private:
  Monitor monitor_;
  std::int64_t patience_;
  std::int64_t waited_ = 0;  // checks without a better value
  TrainingLength length_;
};

}  // namespace

std::unique_ptr<Trigger> on_min_value(std::string key, std::unique_ptr<Trigger> check) {
  return std::make_unique<BestValue>(std::move(key), Better::smaller, std::move(check),
                                     WithoutValue::is_ignored);
}

std::unique_ptr<Trigger> on_max_value(std::string key, std::unique_ptr<Trigger> check) {
  return std::make_unique<BestValue>(std::move(key), Better::larger, std::move(check),
                                     WithoutValue::is_ignored);
}

std::unique_ptr<Trigger> on_best_value(std::string key, std::unique_ptr<Trigger> check) {
  const Better better = better_of(key);
  return std::make_unique<BestValue>(std::move(key), better, std::move(check),
                                     WithoutValue::is_error);
}

std::unique_ptr<Trigger> early_stopping(const EarlyStopping& options) {
  return std::make_unique<EarlyStop>(options);
}

}  // namespace tasuki

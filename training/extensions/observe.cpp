#include "training/extensions/observe.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "training/step_times.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

class ObserveValue final : public Extension {
 public:
  // Adds nothing if `value` has none.
  using Value = std::function<std::optional<double>(Trainer&)>;
  ObserveValue(std::string name, std::string key, Value value)
      : name_(std::move(name)), key_(std::move(key)), value_(std::move(value)) {}
  std::string default_name() const override { return name_; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool may_observe(const std::string& key, const std::string&, bool) const override {
    return key == key_;
  }
  void run(Trainer& trainer) override {
    if (const auto value = value_(trainer)) trainer.observation().set(key_, *value);
  }

 private:
  std::string name_, key_;
  Value value_;
};

class ReportStepTimes final : public Extension {
 public:
  std::string default_name() const override { return "ReportStepTimes"; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool may_observe(const std::string& key, const std::string&, bool) const override {
    return key.starts_with("time/");
  }
  void initialize(Trainer& trainer) override {
    trainer.updater().measure_times();
    reported_ = trainer.updater().times();
  }

  void run(Trainer& trainer) override {
    RankTimes now = trainer.updater().times(), since = now;
    for (std::size_t i = 0; i < since.size(); ++i) since[i] = now[i] - reported_[i];
    reported_ = std::move(now);
    std::vector<StepTimes> devices;
    for (const RankTimes& rank : gather_step_times(since, trainer.communicator())) {
      if (rank.empty()) return;
      devices.insert(devices.end(), rank.begin(), rank.end());
    }
    if (std::ranges::any_of(devices, [](const StepTimes& times) { return times.steps == 0; }))
      return;
    const auto add = [&](const std::string& key, const auto& part) {
      std::vector<double> means;
      means.reserve(devices.size());
      for (const StepTimes& times : devices)
        means.push_back(std::invoke(part, times) / static_cast<double>(times.steps));
      const auto [least, most] = std::ranges::minmax(means);
      trainer.observation().set(key + "/min", least);
      trainer.observation().set(key + "/max", most);
    };
    add("time/input", &StepTimes::input);
    add("time/compute", &StepTimes::compute);
    add("time/forward", &StepTimes::forward);
    add("time/backward", &StepTimes::backward);
    add("time/update", &StepTimes::update);
    add("time/communication", &StepTimes::exchange);
  }

 private:
  RankTimes reported_;
};

}  // namespace

std::unique_ptr<Extension> observe_lr(std::string key) {
  return std::make_unique<ObserveValue>("observe_lr", std::move(key), [](Trainer& trainer) {
    return trainer.updater().optimizer().learning_rate();
  });
}

std::unique_ptr<Extension> observe_value(std::string key, std::function<double(Trainer&)> value) {
  return std::make_unique<ObserveValue>("observe_value", std::move(key), std::move(value));
}

std::unique_ptr<Extension> report_step_times() {
  return std::make_unique<ReportStepTimes>();
}

}  // namespace tasuki

#include "training/extensions/observe.hpp"

#include <optional>
#include <utility>

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

}  // namespace

std::unique_ptr<Extension> observe_lr(std::string key) {
  return std::make_unique<ObserveValue>("observe_lr", std::move(key), [](Trainer& trainer) {
    return trainer.updater().optimizer().learning_rate();
  });
}

std::unique_ptr<Extension> observe_value(std::string key, std::function<double(Trainer&)> value) {
  return std::make_unique<ObserveValue>("observe_value", std::move(key), std::move(value));
}

}  // namespace tasuki

#include "tasuki/training/extensions/report_step_times.hpp"

#include <algorithm>

#include "tasuki/training/step_times.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

class ReportStepTimes final : public Extension {
 public:
  std::string default_name() const override { return "ReportStepTimes"; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void initialize(Trainer& trainer) override { reported_ = trainer.updater().times(); }

  void run(Trainer& trainer) override {
    const StepTimes now = trainer.updater().times();
    const auto ranks = gather_step_times(now - reported_, trainer.communicator());
    reported_ = now;
    if (std::ranges::any_of(ranks, [](const StepTimes& times) { return times.steps == 0; })) return;
    const auto add = [&](const std::string& key, double StepTimes::*part) {
      const auto [least, most] = std::ranges::minmax(ranks, {}, [part](const StepTimes& times) {
        return times.*part / static_cast<double>(times.steps);
      });
      trainer.observation().add(key + "/min", least.*part / static_cast<double>(least.steps));
      trainer.observation().add(key + "/max", most.*part / static_cast<double>(most.steps));
    };
    add("time/input", &StepTimes::input);
    add("time/compute", &StepTimes::compute);
    add("time/communication", &StepTimes::communication);
  }

 private:
  StepTimes reported_;
};

}  // namespace

std::unique_ptr<Extension> report_step_times() {
  return std::make_unique<ReportStepTimes>();
}

}  // namespace tasuki

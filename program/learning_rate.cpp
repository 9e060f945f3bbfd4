#include "tasuki/program/learning_rate.hpp"

#include <cmath>

#include "tasuki/training/extensions/observe.hpp"

namespace tasuki::program {
namespace {

// ChainerMN's schedule of its CIFAR example.
constexpr std::int64_t epochs_to_half = 25;

RateSchedule schedule_of(const TrainingSettings& settings, std::int64_t steps_per_epoch) {
  const auto steps = static_cast<double>(steps_per_epoch);
  const auto epochs = static_cast<double>(settings.epoch);
  RateSchedule schedule;
  schedule.warmup = std::llround(settings.warmup * steps);
  if (settings.lr_schedule == "steps") {
    schedule.gamma = 0.1;
    for (const double part : {0.5, 0.8})
      schedule.drops.push_back(std::llround(part * epochs * steps));
  } else if (settings.lr_schedule == "halving") {
    schedule.gamma = 0.5;
    for (std::int64_t epoch = epochs_to_half; epoch < settings.epoch; epoch += epochs_to_half)
      schedule.drops.push_back(epoch * steps_per_epoch);
  }
  return schedule;
}

double scale_of(const TrainingSettings& settings, std::int64_t global_batch) {
  const double ratio =
      static_cast<double>(global_batch) / static_cast<double>(settings.reference_batch);
  if (settings.lr_scaling == "linear") return ratio;
  return settings.lr_scaling == "sqrt" ? std::sqrt(ratio) : 1;
}

}  // namespace

void add_learning_rate_options(Options& options, TrainingSettings& settings) {
  options.add("lr,l", settings.lr, "auto", {0.0, 1e6}, "X",
              "learning rate (Adam's alpha); by itself Chainer's default of the optimizer");
  options.add("lr-scaling", settings.lr_scaling, {"none", "linear", "sqrt"}, "NAME",
              "how the learning rate grows with the global batch: `none`, `linear` or `sqrt`");
  options.add("lr-reference-batch", settings.reference_batch, {1, 1 << 24}, "N",
              "global batch that --lr is for when it is scaled");
  options.add(
      "lr-schedule", settings.lr_schedule, {"constant", "steps", "halving"}, "NAME",
      "`constant`, `steps` (x 0.1 after 50 % and 80 % of the epochs) or `halving` (every 25 "
      "epochs)");
  options.add("warmup", settings.warmup, {0.0, 1e9}, "E",
              "epochs in which the learning rate rises to its value");
}

void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings,
                       std::int64_t global_batch) {
  const std::string& name = optimizer.rate_name();
  if (name.empty()) {
    const char* flag = settings.lr                          ? "--lr"
                       : settings.lr_scaling != "none"      ? "--lr-scaling"
                       : settings.lr_schedule != "constant" ? "--lr-schedule"
                       : settings.warmup > 0                ? "--warmup"
                                                            : nullptr;
    if (flag != nullptr)
      fail_everywhere(ErrorKind::usage, "{}: {} has no learning rate; leave {} out", flag,
                      settings.optimizer, flag);
    return;
  }
  optimizer.set(name, settings.lr.value_or(optimizer.get(name)) * scale_of(settings, global_batch));
}

std::string describe_scaling(const TrainingSettings& settings, double rate,
                             std::int64_t global_batch) {
  const double scale = scale_of(settings, global_batch);
  if (scale == 1) return "";
  return fmt::format(" = {:.6g} x {:.6g} ({} scaling: global batch {}, recipe {})", rate / scale,
                     scale, settings.lr_scaling, global_batch, settings.reference_batch);
}

std::string describe_schedule(const TrainingSettings& settings) {
  std::string text;
  if (settings.lr_schedule == "steps") text = "x 0.1 after 50 % and 80 % of the epochs";
  if (settings.lr_schedule == "halving")
    text = fmt::format("halved every {} epochs", epochs_to_half);
  if (settings.warmup > 0)
    text += fmt::format("{}rising for {} epochs", text.empty() ? "" : ", ", settings.warmup);
  return text;
}

Shift* extend_with_schedule(Trainer& trainer, const TrainingSettings& settings) {
  const std::string& rate = trainer.updater().optimizer().rate_name();
  if (rate.empty()) return nullptr;
  trainer.extend(observe_lr());
  if (settings.lr_schedule == "constant" && settings.warmup == 0) return nullptr;
  return &trainer.extend(
      scheduled_shift(rate, schedule_of(settings, trainer.updater().steps_per_epoch())));
}

}  // namespace tasuki::program

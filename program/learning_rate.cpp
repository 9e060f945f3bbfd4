#include "program/learning_rate.hpp"

#include <fmt/format.h>

#include <cmath>

#include "program/training_flags.hpp"
#include "training/extensions/observe.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {
namespace {

constexpr std::int64_t epochs_to_half = 25;

const std::vector<Choice<LrScaling>> scalings = {
    {"none", LrScaling::none}, {"linear", LrScaling::linear}, {"sqrt", LrScaling::sqrt}};

const std::vector<Choice<LrSchedule>> schedules = {{"constant", LrSchedule::constant},
                                                   {"steps", LrSchedule::steps},
                                                   {"halving", LrSchedule::halving},
                                                   {"cosine", LrSchedule::cosine},
                                                   {"polynomial", LrSchedule::polynomial}};

double scale_of(const TrainingSettings& settings, std::int64_t global_batch) {
  const double ratio =
      static_cast<double>(global_batch) / static_cast<double>(settings.reference_batch);
  switch (settings.lr_scaling) {
    case LrScaling::linear:
      return ratio;
    case LrScaling::sqrt:
      return std::sqrt(ratio);
    case LrScaling::none:
      break;
  }
  return 1;
}

// Epochs after which the rate is multiplied by a factor.
std::vector<double> drops_of(const TrainingSettings& settings) {
  const auto epochs = static_cast<double>(settings.epoch);
  if (settings.lr_schedule == LrSchedule::steps)
    return settings.lr_drops.empty() ? std::vector{0.5 * epochs, 0.8 * epochs} : settings.lr_drops;
  std::vector<double> drops;
  if (settings.lr_schedule == LrSchedule::halving)
    for (std::int64_t epoch = epochs_to_half; epoch < settings.epoch; epoch += epochs_to_half)
      drops.push_back(static_cast<double>(epoch));
  return drops;
}

}  // namespace

void add_learning_rate_flags(Options& options, TrainingSettings& settings) {
  options
      .add("lr,l", settings.lr, "auto", {0.0, 1e6}, "X",
           "learning rate (Adam's alpha); `auto`: Chainer's default for the optimizer")
      .common();
  options.add("lr-scaling", settings.lr_scaling, scalings, "NAME",
              "how the learning rate grows with the global batch: `none`, `linear` or `sqrt`");
  options.add("lr-reference-batch", settings.reference_batch, batch_sizes, "N",
              "global batch that --lr is meant for; used only by --lr-scaling");
  options.add(
      "lr-schedule", settings.lr_schedule, schedules, "NAME",
      "`constant`; `steps`: drops at --lr-drops; `halving`: halved every 25 epochs; `cosine` "
      "or `polynomial`: falls to 0 over all epochs, as half a cosine or as (1 - x)^P, where x is "
      "the finished fraction and P is --lr-power");
  options.add(
      "lr-drops", settings.lr_drops, "auto", {0.0, 1e9}, "E,E,...",
      "epochs after which `steps` multiplies the rate by --lr-drop-factor; `auto`: after 50 % "
      "and 80 % of all epochs");
  options.add("lr-drop-factor", settings.lr_drop_factor, {0.0, 1e6}, "X",
              "factor of each drop of `steps`");
  options.add("lr-power", settings.lr_power, {0.0, 1e3}, "P",
              "power of `polynomial`; 1 is a straight line");
  options.add("warmup", settings.warmup, {0.0, 1e9}, "E",
              "epochs over which the learning rate rises to its value");
}

void check_learning_rate_flags(const Options& options, const TrainingSettings& settings) {
  const auto refuse = [&](const char* flag, LrSchedule needed) {
    if (settings.lr_schedule != needed && options.is_changed(flag))
      fail_everywhere(ErrorKind::usage, "--{}: --lr-schedule is {}; add --lr-schedule {}", flag,
                      name_of(schedules, settings.lr_schedule), name_of(schedules, needed));
  };
  refuse("lr-drops", LrSchedule::steps);
  refuse("lr-drop-factor", LrSchedule::steps);
  refuse("lr-power", LrSchedule::polynomial);
}

void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings,
                       std::int64_t global_batch) {
  const std::string name = optimizer.rule().rate_name();
  if (name.empty()) {
    const char* flag = settings.lr                                    ? "--lr"
                       : settings.lr_scaling != LrScaling::none       ? "--lr-scaling"
                       : settings.lr_schedule != LrSchedule::constant ? "--lr-schedule"
                       : settings.warmup > 0                          ? "--warmup"
                                                                      : nullptr;
    if (flag != nullptr)
      fail_everywhere(ErrorKind::usage, "{}: {} has no learning rate; leave {} out", flag,
                      optimizer.rule().name(), flag);
    return;
  }
  optimizer.set(name, settings.lr.value_or(optimizer.get(name)) * scale_of(settings, global_batch));
}

std::string describe_scaling(const TrainingSettings& settings, double rate,
                             std::int64_t global_batch) {
  const double scale = scale_of(settings, global_batch);
  if (scale == 1) return "";
  return fmt::format(" = {:.6g} x {:.6g} ({} scaling: global batch {}, recipe {})", rate / scale,
                     scale, name_of(scalings, settings.lr_scaling), global_batch,
                     settings.reference_batch);
}

std::string describe_schedule(const TrainingSettings& settings) {
  std::string text;
  switch (settings.lr_schedule) {
    case LrSchedule::constant:
      break;
    case LrSchedule::steps:
      text = settings.lr_drops.empty()
                 ? fmt::format("x {} after 50 % and 80 % of the epochs", settings.lr_drop_factor)
                 : fmt::format("x {} after epochs {}", settings.lr_drop_factor,
                               fmt::join(settings.lr_drops, ", "));
      break;
    case LrSchedule::halving:
      text = fmt::format("halved every {} epochs", epochs_to_half);
      break;
    case LrSchedule::cosine:
      text = fmt::format("falling to 0 in {} epochs (cosine)", settings.epoch);
      break;
    case LrSchedule::polynomial:
      text = fmt::format("falling to 0 in {} epochs (polynomial, power {})", settings.epoch,
                         settings.lr_power);
      break;
  }
  if (settings.warmup > 0)
    text += fmt::format("{}rising for {} epochs", text.empty() ? "" : ", ", settings.warmup);
  return text;
}

bool follows_length(const TrainingSettings& settings) {
  switch (settings.lr_schedule) {
    case LrSchedule::cosine:
    case LrSchedule::polynomial:
      return true;
    case LrSchedule::steps:
      return settings.lr_drops.empty();
    case LrSchedule::constant:
    case LrSchedule::halving:
      break;
  }
  return false;
}

RateSchedule rate_schedule(const TrainingSettings& settings, std::int64_t steps_per_epoch) {
  const auto steps = static_cast<double>(steps_per_epoch);
  RateSchedule schedule;
  schedule.warmup = std::llround(settings.warmup * steps);
  for (const double epoch : drops_of(settings))
    schedule.drops.push_back(std::llround(epoch * steps));
  schedule.gamma = settings.lr_schedule == LrSchedule::halving ? 0.5 : settings.lr_drop_factor;
  if (settings.lr_schedule == LrSchedule::cosine) schedule.decay = RateSchedule::Decay::cosine;
  if (settings.lr_schedule == LrSchedule::polynomial)
    schedule.decay = RateSchedule::Decay::polynomial;
  schedule.length = settings.epoch * steps_per_epoch;
  schedule.power = settings.lr_power;
  return schedule;
}

Shift* extend_with_schedule(Trainer& trainer, const TrainingSettings& settings) {
  const std::string rate = trainer.updater().optimizer().rule().rate_name();
  if (rate.empty()) return nullptr;
  trainer.extend(observe_lr());
  if (settings.lr_schedule == LrSchedule::constant && settings.warmup == 0) return nullptr;
  return &trainer.extend(
      scheduled_shift(rate, rate_schedule(settings, trainer.updater().steps_per_epoch())));
}

}  // namespace tasuki::program

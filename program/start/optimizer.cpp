#include "program/start/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/training_flags.hpp"
#include "training/extensions/observe.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {
namespace {

// Whether the rule decays weights itself, as AdamW does. Adam has AdamW's hyper-parameter, too, but
// for Adam --weight-decay is Chainer's hook.
bool decays_weights_itself(const Optimizer& optimizer) {
  return !optimizer.rule().decay_name().empty();
}

// The hyper-parameter by which the rule decays weights; empty if it has none.
std::string name_of_own_decay(const Optimizer& optimizer) {
  const std::string of_adam = "weight_decay_rate";
  if (decays_weights_itself(optimizer)) return optimizer.rule().decay_name();
  return std::ranges::count(optimizer.hyperparameters(), of_adam) > 0 ? of_adam : "";
}

bool decays_weights(const Optimizer& optimizer) {
  const std::string own = name_of_own_decay(optimizer);
  return (!own.empty() && optimizer.get(own) > 0) ||
         std::ranges::any_of(optimizer.hooks(),
                             [](const auto& hook) { return hook->decays_weights(); }) ||
         std::ranges::any_of(optimizer.groups(), [](const ParameterGroup& group) {
           return group.weight_decay.value_or(0) > 0;
         });
}

// --- learning rate ---

constexpr std::int64_t epochs_to_half = 25;

double scale_of(const TrainingSettings& settings, double examples) {
  const double ratio = examples / static_cast<double>(settings.reference_batch);
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

void check_decay(const Options& options, const TrainingSettings& settings,
                 const Optimizer& optimizer) {
  if (settings.no_decay_1d && options.is_given("no-decay-1d") && settings.weight_decay == 0 &&
      !decays_weights(optimizer))
    fail_everywhere(ErrorKind::usage,
                    "--no-decay-1d has no effect where no weights decay; add --weight-decay X");
}

std::unique_ptr<Optimizer> create_optimizer(
    const Options& options, const TrainingSettings& settings, double examples,
    const std::function<std::unique_ptr<Optimizer>()>& create) {
  auto optimizer = create ? create() : tasuki::create_optimizer(settings.optimizer);
  check_decay(options, settings, *optimizer);
  configure_optimizer(*optimizer, settings, examples);
  return optimizer;
}

void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, double examples) {
  set_learning_rate(optimizer, settings, examples);
  const std::vector<std::string> known = optimizer.hyperparameters();
  if (settings.momentum) {
    if (std::ranges::count(known, "momentum") == 0)
      fail_everywhere(ErrorKind::usage, "--momentum: {} has none; leave --momentum out",
                      optimizer.rule().name());
    optimizer.set("momentum", *settings.momentum);
  }
  if (settings.clip_norm) optimizer.add_hook(gradient_clipping(*settings.clip_norm));
  double decay = settings.weight_decay;
  if (decays_weights_itself(optimizer) && decay > 0) {
    optimizer.set(optimizer.rule().decay_name(), decay);
    decay = 0;
  }
  if (settings.no_decay_1d) {
    ParameterGroup group{.pattern = "**", .weight_decay = 0, .is_1d_only = true};
    // weight_decay = 0 does not reach Adam's own decay.
    if (const std::string own = name_of_own_decay(optimizer);
        !decays_weights_itself(optimizer) && !own.empty() && optimizer.get(own) > 0)
      group.values[own] = 0;
    optimizer.add_group(std::move(group));
  }
  constexpr double lars_threshold = 1e-2;
  if (settings.lars)
    optimizer.add_hook(gradient_lars(lars_threshold, decay));
  else if (decay > 0)
    optimizer.add_hook(weight_decay(decay));
}

std::string describe_hooks(const Optimizer& optimizer, const TrainingSettings& settings) {
  std::string text;
  if (settings.clip_norm) text += fmt::format(", clip_norm {}", *settings.clip_norm);
  if (settings.lars) text += ", LARS";
  if (settings.weight_decay > 0 && !decays_weights_itself(optimizer))
    text += fmt::format(", weight_decay {}", settings.weight_decay);
  if (settings.no_decay_1d) text += ", no decay of parameters with one axis";
  return text;
}

// --- learning rate ---

void set_learning_rate(Optimizer& optimizer, const TrainingSettings& settings, double examples) {
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
  optimizer.set(name, settings.lr.value_or(optimizer.get(name)) * scale_of(settings, examples));
}

std::string describe_scaling(const TrainingSettings& settings, double rate, double examples) {
  const double scale = scale_of(settings, examples);
  if (scale == 1) return "";
  return fmt::format(" = {:.6g} x {:.6g} ({} scaling: global batch {}, recipe {})", rate / scale,
                     scale, name_of(lr_scalings(), settings.lr_scaling), examples,
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

#include "program/optimizer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/printable.hpp"
#include "program/learning_rate.hpp"
#include "program/training_flags.hpp"

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

}  // namespace

std::string optimizer_help() {
  std::string table = fmt::format("{:<16} {}\n", "name", "hyper-parameters and their defaults");
  for (const NamedRule& each : update_rules()) {
    std::vector<std::string> numbers;
    for (const Hyperparameter& number : each.rule->hyperparameters())
      numbers.push_back(fmt::format("{} {}", number.name, number.initial));
    table += fmt::format("{:<16} {}\n", each.key, join(numbers, ", "));
  }
  return table;
}

void check_decay(const Options& options, const TrainingSettings& settings,
                 const Optimizer& optimizer) {
  if (settings.no_decay_1d && options.is_given("no-decay-1d") && settings.weight_decay == 0 &&
      !decays_weights(optimizer))
    fail_everywhere(ErrorKind::usage,
                    "--no-decay-1d has no effect where no weights decay; add --weight-decay X");
}

std::unique_ptr<Optimizer> create_optimizer(const TrainingSettings& settings, int ranks) {
  auto optimizer = tasuki::create_optimizer(settings.optimizer);
  configure_optimizer(*optimizer, settings, ranks);
  return optimizer;
}

void configure_optimizer(Optimizer& optimizer, const TrainingSettings& settings, int ranks) {
  set_learning_rate(optimizer, settings, examples_of_update(settings, ranks));
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

ExchangeSettings exchange_settings(const TrainingSettings& settings) {
  constexpr double mebibyte = 1 << 20;
  return {.mode = settings.exchange,
          .range_bytes =
              settings.bucket_mb ? static_cast<std::int64_t>(*settings.bucket_mb * mebibyte) : 0,
          .error_feedback = settings.error_feedback,
          .power_sgd_rank = settings.power_sgd_rank};
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

}  // namespace tasuki::program

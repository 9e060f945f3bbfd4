// The flags of the optimizer and its learning rate.
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "optimizer/optimizer.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/flag_groups.hpp"
#include "program/flags/training_flags.hpp"

namespace tasuki::program {

std::string optimizer_help() {
  std::string table = fmt::format("{:<16} {}\n", "name", "hyper-parameters and their defaults");
  for (const NamedRule& each : update_rules()) {
    std::vector<std::string> numbers;
    for (const Hyperparameter& number : each.rule->hyperparameters())
      numbers.push_back(fmt::format("{} {}", number.name, number.initial));
    table += fmt::format("{:<16} {}\n", each.key, fmt::join(numbers, ", "));
  }
  return table;
}

const std::vector<Choice<LrScaling>>& lr_scalings() {
  static const std::vector<Choice<LrScaling>> scalings = {
      {"none", LrScaling::none}, {"linear", LrScaling::linear}, {"sqrt", LrScaling::sqrt}};
  return scalings;
}

namespace {

const std::vector<Choice<LrSchedule>> schedules = {{"constant", LrSchedule::constant},
                                                   {"steps", LrSchedule::steps},
                                                   {"halving", LrSchedule::halving},
                                                   {"cosine", LrSchedule::cosine},
                                                   {"polynomial", LrSchedule::polynomial}};

void add_optimizer_flag(Options& options, TrainingSettings& settings) {
  options
      .add("optimizer", settings.optimizer, optimizer_names(), "NAME",
           fmt::format("update rule: {}; `help` lists their hyper-parameters",
                       fmt::join(optimizer_names(), ", ")))
      .common("update rule, or `help`")
      .listing = optimizer_help;
}

void add_learning_rate_flags(Options& options, TrainingSettings& settings) {
  options
      .add("lr,l", settings.lr, "auto", {0.0, 1e6}, "X",
           "learning rate (Adam's alpha); `auto`: the optimizer's default (Chainer's, except for "
           "lamb)")
      .common();
  options.add("lr-scaling", settings.lr_scaling, lr_scalings(), "NAME",
              "how the learning rate grows with the global batch: `none`, `linear` or `sqrt`");
  options.add("lr-reference-batch", settings.reference_batch, batch_sizes, "N",
              "the global batch for which --lr is meant; used only by --lr-scaling");
  options.add("lr-schedule", settings.lr_schedule, schedules, "NAME",
              "how the learning rate changes. `constant`: not at all; `steps`: drops at "
              "--lr-drops; `halving`: is halved every 25 epochs; `cosine`, `polynomial`: falls to "
              "0 over all epochs, as half a cosine or as (1 - x)^P, where x is the finished "
              "fraction of the run and P is --lr-power");
  options.add(
      "lr-drops", settings.lr_drops, "auto", {0.0, 1e9}, "E,E,...",
      "epochs after which `steps` multiplies the rate by --lr-drop-factor; `auto`: after 50 % "
      "and 80 % of all epochs");
  options.add("lr-drop-factor", settings.lr_drop_factor, {0.0, 1e6}, "X",
              "factor by which each drop of `steps` multiplies the rate");
  options.add("lr-power", settings.lr_power, {0.0, 1e3}, "P",
              "power of `polynomial`; 1 is a straight line");
  options.add("warmup", settings.warmup, {0.0, 1e9}, "E",
              "epochs over which the learning rate rises to its value");
}

}  // namespace

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

void add_optimizer_flags(Options& options, TrainingSettings& settings, bool has_name) {
  options.group("Optimizer", OnScreen::no);
  if (has_name) add_optimizer_flag(options, settings);
  add_learning_rate_flags(options, settings);
  options.add("momentum", settings.momentum, "auto", {0.0, 1.0}, "X",
              "momentum of momentum_sgd and nesterov; `auto`: Chainer's default");
  options.add("weight-decay", settings.weight_decay, {0.0, 1e3}, "X",
              "add X times each weight to its gradient (adamw, lamb: decay the weights "
              "themselves)");
  options.add("no-decay-1d", settings.no_decay_1d,
              "no --weight-decay for parameters with one axis (biases, and scales of "
              "normalisation layers)");
  options.add(
      "clip-norm", settings.clip_norm, "none", {1e-30, 1e30}, "X",
      "if the gradient's L2 norm over all parameters exceeds X, scale the gradient down to norm X "
      "(before --weight-decay and --lars)");
  options.add(
      "lars", settings.lars,
      "layer-wise adaptive rates, Chainer's GradientLARS: each parameter's gradient g becomes (g "
      "+ D w) |w| / (|g| + D |w|) if |w| > 0.01, else g + D w; D is --weight-decay");
  options
      .add("shard", settings.shard,
           {{"none", Sharding::none},
            {"states", Sharding::states},
            {"gradients", Sharding::gradients},
            {"weights", Sharding::weights}},
           "WHAT",
           "what ranks divide among them to take less memory. states: each rank keeps the "
           "optimizer's states of a part of the weights, updates that part and sends it to the "
           "others (ZeRO, stage 1; not with lamb on GPUs); gradients: each also keeps the sums of "
           "gradients of its part only (stage 2; on CPUs; with --reproducible each keeps all); "
           "weights: each node also keeps the weights of its ranks' parts only, and gathers others "
           "while passes use them (stage 3). Results are those of none, up to rounding")
      .in_short("divide states, gradients, weights among ranks");

  options.add("shard-optimizer", settings.shard_optimizer, "the same as --shard states");
}

}  // namespace tasuki::program

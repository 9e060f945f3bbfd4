// The flags about checkpoints and snapshots.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

constexpr std::array<std::pair<std::string_view, PeriodUnit>, 4> units = {
    {{"it", PeriodUnit::iteration},
     {"epoch", PeriodUnit::epoch},
     {"min", PeriodUnit::minute},
     {"s", PeriodUnit::second}}};

Option checkpoint_every_flag(TrainingSettings& settings) {
  Option option;
  option.value_name = "PERIOD";
  option.help =
      "time between checkpoints: 20it (iterations), 0.5epoch, 10min or 90s. One more is saved at "
      "the end of the run, and when the run is asked to stop. Training continues while a "
      "checkpoint "
      "is written; with a period in iterations it waits for the disk instead, so that a failure "
      "loses at most that many iterations. `none`: never";
  bind_or_none(option, settings.checkpoint_every, parse_checkpoint_period,
               [](const CheckpointPeriod& period) { return to_text(period); });
  return option;
}

}  // namespace

CheckpointPeriod parse_checkpoint_period(const std::string& text) {
  // Units have no digits, so they begin after the last one.
  const std::size_t end = text.find_last_of("0123456789.") + 1;
  const std::string number = text.substr(0, end), name = text.substr(end);
  const auto known = std::ranges::find(units, name, [](const auto& unit) { return unit.first; });
  if (number.empty() || known == units.end())
    throw std::invalid_argument("a number with its unit, such as 20it, 0.5epoch, 10min or 90s");
  try {
    if (known->second == PeriodUnit::iteration)
      return {static_cast<double>(parse_integer(number, {1, billion})), known->second};
    return {parse_number(number, {1e-3, 1e9}), known->second};
  } catch (const std::invalid_argument& expected) {
    throw std::invalid_argument(fmt::format("{} before '{}'", expected.what(), name));
  }
}

std::string to_text(const CheckpointPeriod& period) {
  for (const auto& [name, unit] : units)
    if (unit == period.unit) return fmt::format("{}{}", to_text(period.count), name);
  return {};
}

void add_checkpoint_flags(Options& options, TrainingSettings& settings) {
  options.add("checkpoint-every", checkpoint_every_flag(settings))
      .common("interval between checkpoints");
  options.add("keep", settings.keep, {1, billion}, "K",
              "keep the newest K checkpoints and remove older ones");
  options.add(
      "keep-best", settings.keep_best, "none", "KEY",
      "also save and keep the checkpoint of the epoch with the best value of KEY in the log (for "
      "example validation/main/accuracy); the file `best` in --out names it; larger is better if "
      "KEY contains `accuracy`");
  options.add("snapshot-every", settings.snapshot_every, "end", {1, billion}, "N",
              "epochs between snapshots, which Chainer can read and which --keep does not remove; "
              "one is always saved at the end");
}

void check_checkpoint_flags(const Options& options, const TrainingSettings& settings) {
  if (settings.checkpoint_every) return;
  if (settings.keep_best)
    fail_everywhere(ErrorKind::usage,
                    "--keep-best keeps a checkpoint, and --checkpoint-every none saves none; leave "
                    "one out");
  if (options.is_changed("keep"))
    fail_everywhere(ErrorKind::usage,
                    "--keep has no effect with --checkpoint-every none; leave one out");
}

}  // namespace tasuki::program

#include "program/start/resume.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "dataset/shard_plan.hpp"
#include "optimizer/update_rule.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/training_flags.hpp"
#include "program/start/optimizer.hpp"
#include "saving/saved_states.hpp"
#include "training/resume.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {
namespace {

const char* const extension_name = "Flags";

// In this order, because later ones depend on earlier ones.
const std::vector<std::string> kept = {"optimizer",      "lr",
                                       "lr-scaling",     "lr-reference-batch",
                                       "lr-schedule",    "lr-drops",
                                       "lr-drop-factor", "lr-power",
                                       "warmup",         "momentum",
                                       "weight-decay",   "no-decay-1d",
                                       "clip-norm",      "lars",
                                       "epoch",          "exif",
                                       "skip-damaged",   "sync-every",
                                       "sync-warmup",    "outer-optimizer",
                                       "outer-lr",       "outer-momentum",
                                       "sync-overlap"};
// Flags that set no hyper-parameter of the optimizer: their texts are compared. --epoch is one of
// them if the schedule depends on it.
const std::vector<std::string> of_schedule = {"lr-schedule", "lr-drops", "lr-drop-factor",
                                              "lr-power", "warmup"};
// Flags of the data, whose texts are compared, too.
const std::vector<std::string> of_data = {"exif", "skip-damaged"};
// Flags that mean nothing with another --lr-schedule.
const std::vector<std::string> of_one_schedule = {"lr-drops", "lr-drop-factor", "lr-power"};

bool has(const FlagTexts& flags, const std::string& name) {
  return std::ranges::count(flags, name, &FlagTexts::value_type::first) > 0;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_governed(const Optimizer& optimizer, const std::string& hyperparameter) {
  return hyperparameter == optimizer.rule().rate_name() || hyperparameter == "momentum" ||
         hyperparameter == optimizer.rule().decay_name() || hyperparameter == "weight_decay_rate";
}

using Values = std::map<std::string, double>;

Values governed_values(const Optimizer& optimizer) {
  Values values;
  for (const std::string& name : optimizer.hyperparameters())
    if (is_governed(optimizer, name)) values[name] = optimizer.get(name);
  return values;
}

// Extension "Flags" in a snapshot: the flags, which are read before there is a trainer, and the
// hyper-parameters that they ask for. What the snapshot's run had asked for tells its own changes
// (an extension of the program that sets the rate) from those of this run's flags.
class KeptFlags : public Extension {
 public:
  KeptFlags(FlagTexts flags, const NamedOptimizers& optimizers) : flags_(std::move(flags)) {
    for (const auto& [name, optimizer] : optimizers) asked_[name] = governed_values(*optimizer);
  }
  std::string default_name() const override { return extension_name; }
  void run(Trainer&) override {}
  void serialize(const Serializer& serializer) override {
    if (!serializer.is_loading())
      for (auto& [name, text] : flags_) serializer(name, text);
    for (const auto& [optimizer, values] : asked_)
      for (auto [name, value] : values) {
        const Serializer asked = serializer["asked"][optimizer];
        if (serializer.is_loading() && !asked.contains(name)) continue;
        asked(name, value);
        if (serializer.is_loading()) asked_before_[optimizer][name] = value;
      }
  }

  const Values& asked(const std::string& optimizer) const { return asked_.at(optimizer); }
  // In the run of the snapshot that was loaded; nothing if it is of an older version.
  std::optional<double> asked_before(const std::string& optimizer, const std::string& name) const {
    const auto values = asked_before_.find(optimizer);
    if (values == asked_before_.end() || !values->second.contains(name)) return std::nullopt;
    return values->second.at(name);
  }

 private:
  FlagTexts flags_;
  std::map<std::string, Values> asked_, asked_before_;  // by optimizer
};

// Nothing if there is no such entry, or one of another type.
template <class T>
std::optional<T> read(const ArraySource& source, const std::string& name) {
  if (!source.find(name)) return std::nullopt;
  const NpzValue value = source.read(name);
  if (const auto* found = std::get_if<T>(&value)) return *found;
  return std::nullopt;
}

std::optional<std::string> read_number(const ArraySource& source, const std::string& name) {
  const auto number = read<Tensor>(source, name);
  if (!number || number->dtype() != DType::float64 || number->shape().count() != 1)
    return std::nullopt;
  const double value = *number->data<double>();
  return std::isnan(value) ? std::nullopt : std::optional(to_text(value));
}

// The flags that make the optimizer of a snapshot that keeps none, because another program made it.
FlagTexts flags_of_optimizer(const ArraySource& source) {
  const std::string optimizer = "updater/optimizer:main/";
  const std::string numbers = optimizer + "hyperparameters/";
  const auto title = read<std::string>(source, optimizer + "name");
  const auto& rules = update_rules();
  const auto known = std::ranges::find_if(
      rules, [&](const NamedRule& each) { return title && each.rule->name() == *title; });
  if (known == rules.end()) return {};
  const UpdateRule& rule = *known->rule;
  FlagTexts flags = {{"optimizer", known->key}};
  const auto add = [&](const char* flag, const std::optional<std::string>& text) {
    if (text) flags.emplace_back(flag, *text);
  };
  // The snapshot has the rate as it was in use, already scaled. The flags that would scale it once
  // more come first.
  add("lr-scaling", "none");
  const auto initial = read_number(source, "extensions/RateSchedule/initial");
  if (const std::string rate = rule.rate_name(); !rate.empty())
    add("lr", initial ? initial : read_number(source, numbers + rate));
  add("momentum", read_number(source, numbers + "momentum"));
  if (const std::string decay = rule.decay_name(); !decay.empty())
    add("weight-decay", read_number(source, numbers + decay));
  return flags;
}

FlagTexts flags_in(const ArraySource& source) {
  FlagTexts flags;
  for (const std::string& name : kept)
    if (const auto text =
            read<std::string>(source, fmt::format("extensions/{}/{}", extension_name, name)))
      flags.emplace_back(name, *text);
  return flags.empty() ? flags_of_optimizer(source) : flags;
}

// Those that rank 0 sees; none if --resume auto finds nothing. Collective.
SavedStateList states_to_resume(const TrainingSettings& settings, int parts,
                                Communicator& communicator) {
  const Bytes sent = run_on_root(communicator, 0, [&] {
    const SavedStateList found = settings.resume.from == ResumeSettings::From::automatic
                                     ? list_saved_states(settings.out, parts)
                                     : find_saved_states(settings.resume.path, "--resume", parts);
    std::vector<std::string> names;
    for (const auto& each : found.paths) names.push_back(each.string());
    return object_to_bytes({names, found.is_of_folder});
  });
  const nlohmann::json found = bytes_to_object(sent);
  SavedStateList states{{}, found.at(1).get<bool>()};
  for (const auto& name : found.at(0)) states.paths.emplace_back(name.get<std::string>());
  return states;
}

// The state of trigger early_stopping(), if it watched the same value.
std::int64_t epochs_waited_in(const ArraySource& source, const TrainingSettings& settings) {
  const auto key = read<std::string>(source, "stop_trigger/monitor/key");
  const auto waited = read<Tensor>(source, "stop_trigger/waited");
  if (!settings.early_stopping || key != settings.early_stopping || !waited) return 0;
  return waited->dtype() == DType::int64 && waited->count() == 1 ? *waited->data<std::int64_t>()
                                                                 : 0;
}

std::optional<std::vector<std::int64_t>> left_out_in(const ArraySource& source) {
  const auto keys = read<Tensor>(source, "extensions/Data/left_out");
  if (!keys || keys->dtype() != DType::int64) return std::nullopt;
  const auto values = keys->span<std::int64_t>();
  std::vector<std::int64_t> left_out(values.begin(), values.end());
  std::ranges::sort(left_out);
  return left_out;
}

// No flag governs this hyper-parameter of Adam: the run has the program's, 0 by default. In
// snapshots of older programs it may be --weight-decay, which then meant AdamW's way.
void keep_own_decay(const Trainer& trainer, Optimizer& adam, double own,
                    const TrainingSettings& settings) {
  const double loaded = adam.get("weight_decay_rate");
  adam.set("weight_decay_rate", own);
  if (loaded == own || !trainer.is_root()) return;
  if (own > 0)
    log_warning(
        "the snapshot's Adam decays weights by weight_decay_rate {}, this run does by {}: the "
        "program has set it",
        loaded, own);
  else
    log_warning(
        "the snapshot's Adam decays weights by weight_decay_rate {}, as --weight-decay did in "
        "older versions; this run does not: its --weight-decay {} adds to the gradients (for the "
        "former, AdamW: --init FILE --optimizer adamw)",
        loaded, settings.weight_decay);
}

}  // namespace

bool Resumption::goes_on_in(const TrainingSettings& settings) const {
  std::error_code ignored;
  return settings.resume.from == ResumeSettings::From::automatic ||
         (from && std::filesystem::equivalent(settings.out, output_folder_of(from->path), ignored));
}

namespace {

// Takes the saved flags, and notes the differences that are found by comparing texts.
void inherit_flags(Options& options, const TrainingSettings& settings, const FlagTexts& flags,
                   Resumption& resumption) {
  bool is_rate_inherited = true, is_schedule_inherited = true;
  for (const auto& [name, text] : flags) {
    if (!options.has(name) || (name == "lr" && !is_rate_inherited) ||
        (!is_schedule_inherited && is_in(of_one_schedule, name)))
      continue;
    const std::string here = options.inherit(name, text);
    // Another optimizer's hyper-parameters mean nothing here; the saved state is refused later.
    if (name == "optimizer" && here != text) break;
    // If a scaling was asked for, the rate follows from this run's flags. (Snapshots that keep
    // flags have the rate first, as it was given.)
    if (name == "lr-scaling" && here != text) is_rate_inherited = false;
    if (name == "lr-schedule" && here != text) is_schedule_inherited = false;
    if (here == text) continue;
    const std::string difference = fmt::format("{} {} instead of {}", name, here, text);
    if (is_in(of_schedule, name) || (name == "epoch" && follows_length(settings)))
      resumption.overruled.push_back(difference);
    if (is_in(of_data, name)) resumption.of_other_data.push_back(difference);
  }
}

}  // namespace

Resumption find_resumption(Options& options, const TrainingSettings& settings,
                           Communicator& communicator) {
  check_resume_flags(settings);
  Resumption resumption;
  if (settings.resume.from != ResumeSettings::From::nothing) {
    const int parts = model_ranks(settings, communicator.size());
    const auto found_states = states_to_resume(settings, parts, communicator);
    if (!found_states.paths.empty()) {
      const ResumeSource found = open_first_intact(found_states, "--resume", parts, &communicator);
      const Bytes sent = run_on_root(communicator, 0, [&] {
        const auto left_out = left_out_in(*found.source);
        return object_to_bytes(nlohmann::json::array(
            {flags_in(*found.source), epochs_waited_in(*found.source, settings),
             left_out.has_value(), left_out.value_or(std::vector<std::int64_t>())}));
      });
      const nlohmann::json kept_in = bytes_to_object(sent);
      resumption.from = found;
      if (settings.resume.from == ResumeSettings::From::path)
        options.inherit("out", output_folder_of(found.path).string());
      auto flags = kept_in.at(0).get<FlagTexts>();
      resumption.lacks_exif = options.has("exif") && !has(flags, "exif");
      // What versions without the flag did.
      if (resumption.lacks_exif) flags.emplace_back("exif", "off");
      inherit_flags(options, settings, flags, resumption);
      resumption.epochs_waited = kept_in.at(1);
      if (kept_in.at(2).get<bool>())
        resumption.left_out = kept_in.at(3).get<std::vector<std::int64_t>>();
    }
  }
  for (const auto& [name, text] : options.values()) {
    if (is_in(kept, name)) resumption.kept_flags.emplace_back(name, text);
    if (options.is_given(name)) resumption.given.insert(name);
  }
  return resumption;
}

RunPosition check_resume(const Resumption& resumption, const TrainingSettings& settings,
                         const NamedOptimizers& optimizers, std::optional<std::int64_t> examples,
                         std::int64_t bucket_steps, Communicator& communicator,
                         const ModelGrid& grid) {
  const int ranks = grid.models();
  RunDescription run;
  run.identity = {static_cast<std::uint64_t>(settings.seed), ranks, settings.accumulate};
  if (examples) {
    const ShardPlan plan(*examples, ranks, static_cast<int>(settings.shards.value_or(0)));
    const std::int64_t batch = global_batch(settings, ranks);
    run.layout = {.examples = *examples,
                  .shards = plan.shards(),
                  .global_batch = batch,
                  .bucket_steps = bucket_steps};
    run.steps_per_epoch = plan.steps_per_epoch(batch);
  }
  return check_resumable(resumption.from.value(), run, optimizers, &communicator,
                         grid.replicas().get());
}

namespace {

// Of snapshots that do not say what their run asked for: whether this run's flags may ask for
// something else.
bool may_ask_anew(const Optimizer& optimizer, const std::string& name, const Resumption& resumption,
                  const TrainingSettings& settings, bool is_scheduled) {
  const bool is_rate = name == optimizer.rule().rate_name();
  const bool is_scaled = is_rate && settings.lr_scaling != LrScaling::none;
  const char* const flag = is_rate ? "lr" : name == "momentum" ? "momentum" : "weight-decay";
  return is_scheduled || is_scaled || name == "weight_decay_rate" ||
         resumption.given.contains(flag);
}

// After a resume: gives the optimizer the values for which this run's flags ask and the snapshot's
// did not. All others are as they were, whoever has set them. Returns the differences.
std::vector<std::string> set_governed(const KeptFlags& flags, const NamedOptimizer& named,
                                      const Trainer& trainer, const Resumption& resumption,
                                      const TrainingSettings& settings, const Shift* schedule) {
  Optimizer& optimizer = *named.optimizer;
  std::vector<std::string> changes;
  for (const auto& [name, value] : flags.asked(named.name)) {
    const bool is_scheduled = schedule != nullptr && name == optimizer.rule().rate_name();
    // Flags of a schedule that is another one, or no longer there, have the rate begin anew.
    const bool is_overruled = name == optimizer.rule().rate_name() && !resumption.overruled.empty();
    const auto asked_before = flags.asked_before(named.name, name);
    const bool asks_anew = is_overruled || (asked_before ? *asked_before != value
                                                         : may_ask_anew(optimizer, name, resumption,
                                                                        settings, is_scheduled));
    if (!asks_anew) continue;
    if (optimizer.rule().name() == "Adam" && name == "weight_decay_rate") {
      keep_own_decay(trainer, optimizer, value, settings);
      continue;
    }
    const double loaded = optimizer.get(name);
    const double before = is_scheduled ? schedule->initial().value_or(loaded) : loaded;
    if (value != before) changes.push_back(fmt::format("{} {} instead of {}", name, value, before));
    optimizer.set(name, value);
  }
  return changes;
}

}  // namespace

void resume_training(Resumption& resumption, Trainer& trainer, const TrainingSettings& settings,
                     Shift* schedule, const ModelGrid& grid) {
  const NamedOptimizers optimizers = trainer.updater().optimizers();
  const auto* const flags = trainer.find_extension<KeptFlags>(extension_name);
  TASUKI_CHECK(flags != nullptr, "the flags are not kept");
  resume(resumption.from.value(), trainer, grid.replicas().get());
  resumption.from->source.reset();
  std::vector<std::string> changes;
  for (const NamedOptimizer& each : optimizers)
    for (std::string& change : set_governed(*flags, each, trainer, resumption, settings, schedule))
      if (!std::ranges::count(changes, change)) changes.push_back(std::move(change));
  if (schedule != nullptr)
    schedule->set_initial(
        flags->asked(optimizers.front().name).at(optimizers.front().optimizer->rule().rate_name()));
  for (const auto* const differences : {&resumption.overruled, &resumption.of_other_data})
    changes.insert(changes.end(), differences->begin(), differences->end());
  if (!changes.empty())
    log_info("continuing with settings that differ from the snapshot's: {}", join(changes, ", "));
}

std::unique_ptr<Extension> keep_flags(const Resumption& resumption,
                                      const NamedOptimizers& optimizers) {
  return std::make_unique<KeptFlags>(resumption.kept_flags, optimizers);
}

std::string describe_end(const Resumption& resumption, const TrainingSettings& settings,
                         const RunPosition& position) {
  const std::string saved = resumption.from->path.string();
  const auto end_of = [&](const char* flag, std::int64_t value) {
    return fmt::format("{} is at the end of {} {}; raise {} to continue", saved, flag, value, flag);
  };
  if (position.data.epoch >= settings.epoch) return end_of("--epoch", settings.epoch);
  if (settings.max_iterations && position.iteration >= *settings.max_iterations)
    return end_of("--max-iterations", *settings.max_iterations);
  if (settings.early_stopping && resumption.epochs_waited >= settings.patience)
    return fmt::format("{} is where --early-stopping {} stopped; raise --patience to continue",
                       saved, *settings.early_stopping);
  return "";
}

std::string describe_resume(const Resumption& resumption, const RunPosition& position) {
  return fmt::format("{}, epoch {}, iteration {}", resumption.from->path.string(),
                     position.data.epoch, position.iteration);
}

}  // namespace tasuki::program

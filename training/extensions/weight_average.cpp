#include "training/extensions/weight_average.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "saving/npz.hpp"
#include "saving/output_layout.hpp"
#include "tensor/backend.hpp"
#include "training/trainer.hpp"

namespace tasuki {

// The average of an optimizer's weights, with the offsets of its arena.
struct WeightAverage::Average {
  std::string name;
  Optimizer* optimizer;
  Tensor values{};  // undefined: none yet
  struct Place {
    std::string path;
    std::int64_t offset, count;
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> places{};  // of `values`

  // Null: it was added or unfrozen since the last iteration.
  const Place* find(const ParameterArena::Entry& entry) const {
    const auto found = std::ranges::find(places, entry.path, &Place::path);
    return found == places.end() || found->count != entry.count ? nullptr : &*found;
  }
  Tensor part(const Place& place) const {
    return values.slice(place.offset, place.offset + place.count);
  }
};

namespace {

std::int64_t trained_count(const Optimizer& optimizer) {
  return optimizer.arena().update_count();
}

Tensor trained_weights(const Optimizer& optimizer) {
  return optimizer.arena().values().slice(0, trained_count(optimizer));
}

// After a change of a model's weights.
void tell_parameters(const Optimizer& optimizer) {
  for (const ParameterArena::Entry& entry : optimizer.arena().entries())
    entry.parameter->value_changed();
}

}  // namespace

WeightAverage::WeightAverage(const NamedOptimizers& optimizers, Settings settings)
    : settings_(std::move(settings)) {
  if (!(settings_.decay >= 0 && settings_.decay < 1))
    fail_everywhere(ErrorKind::usage, "the decay of averaged weights must be in [0, 1), not {}",
                    settings_.decay);
  for (const auto& [name, optimizer] : optimizers)
    if (optimizer->divides_weights())
      fail_everywhere(
          ErrorKind::usage,
          "--ema and --shard weights: an average would be as large as all weights; leave "
          "one out");
  for (const auto& [name, optimizer] : optimizers)
    averages_.push_back(std::make_shared<Average>(Average{name, optimizer}));
}

bool WeightAverage::may_observe(const std::string& key, const std::string&, bool) const {
  return std::ranges::any_of(settings_.evaluators, [&](const std::string& evaluator) {
    return key.starts_with(fmt::format("ema/{}/", evaluator));
  });
}

void WeightAverage::arrange(Average& average) {
  const Optimizer& optimizer = *average.optimizer;
  std::vector<Average::Place> places;
  for (const ParameterArena::Entry& entry : optimizer.arena().entries())
    places.push_back({entry.path, entry.offset, entry.count});
  if (average.values && places == average.places) return;
  const Average before = average;
  average.values = trained_weights(optimizer).clone();
  average.places = std::move(places);
  if (!before.values) return;
  for (const Average::Place& place : average.places) {
    const auto old = std::ranges::find(before.places, place.path, &Average::Place::path);
    if (old != before.places.end() && old->count == place.count)
      average.part(place).copy_from(before.part(*old));
  }
}

void WeightAverage::run(Trainer& trainer) {
  for (const auto& average : averages_) {
    const bool is_first = !average->values;
    arrange(*average);
    if (is_first) continue;
    const Tensor weights = trained_weights(*average->optimizer);
    const MovingAverage moved{average->values, weights, static_cast<float>(settings_.decay),
                              static_cast<float>(1 - settings_.decay)};
    backend(weights.device()).move_averages({&moved, 1});
  }
  if (trainer.updater().is_new_epoch()) evaluate(trainer);
}

void WeightAverage::with_averages(const std::function<void()>& work) const {
  std::vector<Tensor> before;
  const auto give_back = [&] {
    for (std::size_t i = 0; i < before.size(); ++i) {
      trained_weights(*averages_[i]->optimizer).copy_from(before[i]);
      tell_parameters(*averages_[i]->optimizer);
    }
  };
  for (const auto& average : averages_)
    before.push_back(trained_weights(*average->optimizer).clone());
  try {
    for (const auto& average : averages_) {
      trained_weights(*average->optimizer).copy_from(average->values);
      tell_parameters(*average->optimizer);
    }
    work();
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

void WeightAverage::evaluate(Trainer& trainer) const {
  std::vector<Extension*> evaluators;
  for (const std::string& name : settings_.evaluators)
    if (Extension* const evaluator = trainer.find_extension(name)) evaluators.push_back(evaluator);
  if (evaluators.empty()) return;
  Observation plain = std::exchange(trainer.observation(), Observation());
  with_averages([&] {
    for (Extension* const evaluator : evaluators) evaluator->run(trainer);
  });
  const Observation averaged = std::exchange(trainer.observation(), std::move(plain));
  trainer.observation().add(averaged, "ema/");
}

void WeightAverage::finalize(Trainer& trainer) {
  trainer.restore_output_everywhere();
  const SavingRanks ranks(trainer.communicator(), settings_.replicas.get());
  ranks.on_first([&] {
    std::vector<NpzEntry> entries;
    for (const auto& average : averages_) append_entries(*average, entries);
    if (entries.empty()) return;
    const std::filesystem::path file = trainer.out() / (averaged_weights_name + ranks.suffix);
    write_npz(file, entries);
    trainer.note_result(file);
  });
}

void WeightAverage::append_entries(const Average& average, std::vector<NpzEntry>& entries) const {
  if (!average.values) return;
  const std::string prefix =
      averages_.size() == 1 ? "" : fmt::format("updater/model:{}/", average.name);
  std::map<const Parameter*, Tensor> averaged;
  for (const ParameterArena::Entry& entry : average.optimizer->arena().entries())
    if (const Average::Place* const place = average.find(entry))
      averaged.emplace(entry.parameter, average.part(*place).reshape(entry.parameter->shape()));
  const Module& model = average.optimizer->model();
  for (const auto& [path, parameter] : model.parameters()) {
    const auto found = averaged.find(parameter);
    entries.push_back(
        {prefix + path, found == averaged.end() ? parameter->value() : found->second});
  }
  for (const auto& [path, buffer] : model.buffers()) entries.push_back({prefix + path, *buffer});
}

void WeightAverage::serialize(const Serializer& serializer) {
  for (const auto& average : averages_) {
    const Serializer own = serializer[average->name];
    const std::vector<ParameterArena::Entry>& entries = average->optimizer->arena().entries();
    const auto is_saved = [&](const ParameterArena::Entry& entry) {
      return !serializer.is_loading() || own.contains(entry.path);
    };
    if (serializer.is_loading()) average->values = {};
    // Before the first iteration there is none.
    if (!std::ranges::any_of(entries, is_saved)) continue;
    if (serializer.is_loading()) arrange(*average);
    if (!average->values) continue;
    for (const ParameterArena::Entry& entry : entries)
      if (const Average::Place* const place = average->find(entry); place && is_saved(entry))
        own(entry.path, average->part(*place).reshape(entry.parameter->shape()));
  }
}

}  // namespace tasuki

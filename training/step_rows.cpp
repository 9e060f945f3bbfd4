#include "training/step_rows.hpp"

#include <utility>

#include "saving/event_file.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

std::optional<StepTimes> times_of(const Updater& updater) {
  const Module* const model = updater.evaluated_model();
  if (model == nullptr || !model->device().is_cpu()) return std::nullopt;
  RankTimes devices = updater.times();
  return devices.empty() ? std::nullopt : std::optional(devices.front());
}

}  // namespace

std::vector<StepRow::Value> StepRow::values() const {
  std::vector<Value> found;
  for (const auto& [key, value] : seen.values())
    if (value.count > 0 && key != "lr") found.push_back({key, value.mean(), value.reach});
  return found;
}

std::vector<std::pair<std::string, double>> StepRow::times() const {
  std::vector<std::pair<std::string, double>> found = {{"seconds", seconds}};
  if (parts)
    found.insert(found.end(), {{"input", parts->input},
                               {"forward", parts->forward},
                               {"backward", parts->backward},
                               {"exchange", parts->exchange},
                               {"update", parts->update}});
  return found;
}

void StepRows::begin(const Trainer& trainer) {
  rows_.clear();
  last_ = trainer.elapsed_time();
  times_ = times_of(trainer.updater());
}

void StepRows::add(Trainer& trainer) {
  const Updater& updater = trainer.updater();
  const double elapsed = trainer.elapsed_time();
  StepRow row{.iteration = updater.iteration(),
              .epoch = updater.epoch_detail(),
              .elapsed_time = elapsed,
              .wall_time = EventFile::now(),
              .seconds = elapsed - std::exchange(last_, elapsed),
              .lr = updater.optimizer().learning_rate(),
              .seen = trainer.observation()};
  if (times_) {
    const std::optional<StepTimes> now = times_of(updater);
    if (now) row.parts = *now - *times_;
    times_ = now;
  }
  rows_.push_back(std::move(row));
}

std::vector<StepRow> StepRows::take(Communicator* communicator) {
  std::vector<StepRow> taken = std::exchange(rows_, {});
  std::vector<Observation> own;
  own.reserve(taken.size());
  for (StepRow& row : taken) own.push_back(std::move(row.seen));
  std::vector<Observation> all = Observation::gather(own, communicator);
  taken.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) taken[i].seen = std::move(all[i]);
  return taken;
}

}  // namespace tasuki

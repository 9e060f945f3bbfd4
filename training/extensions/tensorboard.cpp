#include "training/extensions/tensorboard.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "optimizer/gradient_exchange.hpp"
#include "saving/output_layout.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

bool has_late_gradients(const Optimizer& optimizer) {
  const GradientExchange* const exchange = optimizer.step_exchange().gradient_exchange();
  return exchange != nullptr && exchange->mode() == ExchangeMode::double_buffered;
}

}  // namespace

void TensorBoard::initialize(Trainer& trainer) {
  StepWriter::initialize(trainer);
  has_ended_ = false;
}

// A run from the beginning has saved_ before all files, and removes those that a killed run left.
void TensorBoard::open(Trainer& trainer) {
  const std::filesystem::path folder = trainer.out() / tensorboard_name;
  if (std::exchange(knows_saved_, true)) cut_event_files(folder, saved_);
  const bool is_first = event_files_in(folder).empty();
  const std::int64_t iteration = trainer.updater().iteration();
  events_.emplace(folder, iteration > 0 ? iteration + 1 : 0);
  events_->add_settings(settings_.settings);
  if (is_first) add_all_entries(trainer);
  is_repeating_ = has_ended_ && !is_first;
  events_->flush();
  saved_ = events_->position();
}

void TensorBoard::run(Trainer& trainer) {
  is_repeating_ = false;
  if (settings_.histograms > 0 && trainer.updater().iteration() % settings_.histograms == 0)
    add_histograms(trainer);
  StepWriter::run(trainer);
}

void TensorBoard::before_save(Trainer& trainer) {
  StepWriter::before_save(trainer);
  if (events_ && !has_ended_) saved_ = events_->position();
}

void TensorBoard::finalize(Trainer& trainer) {
  add_steps(trainer);
  if (events_) saved_ = events_->position();
  has_ended_ = true;
  StepWriter::finalize(trainer);
}

void TensorBoard::add_row(const StepRow& row) {
  std::vector<EventFile::Scalar> scalars;
  // What the whole job has, such as results of an evaluation, is in the log's entries.
  for (const StepRow::Value& value : row.values())
    if (value.reach == Reach::rank) scalars.emplace_back("step/" + value.key, value.mean);
  if (row.lr) scalars.emplace_back("step/lr", *row.lr);
  for (const auto& [name, seconds] : row.times())
    scalars.emplace_back("step/time/" + name, seconds);
  events_->add_scalars(scalars, row.iteration, row.wall_time);
}

void TensorBoard::add_entry(Trainer& trainer, const nlohmann::ordered_json& entry,
                            bool /*may_change*/) {
  std::vector<EventFile::Scalar> scalars;
  for (const auto& [key, value] : entry.items())
    if (value.is_number() && key != "iteration") scalars.emplace_back(key, value.get<double>());
  const double age = trainer.elapsed_time() - entry.value("elapsed_time", trainer.elapsed_time());
  events_->add_scalars(scalars, entry.value("iteration", std::int64_t{0}), EventFile::now() - age);
}

void TensorBoard::write(Trainer& trainer) {
  if (!events_->is_there()) {
    events_->move_to(trainer.out() / tensorboard_name);
    events_->add_settings(settings_.settings);
  }
  events_->flush();
}

std::string TensorBoard::place(const Trainer& trainer) const {
  return (trainer.out() / tensorboard_name).string();
}

void TensorBoard::add_histograms(Trainer& trainer) {
  const NamedOptimizers optimizers = trainer.updater().optimizers();
  const std::int64_t step = trainer.updater().iteration();
  for (const NamedOptimizer& each : optimizers) {
    const ParameterArena& arena = each.optimizer->arena();
    if (each.optimizer->divides_weights())
      fail_everywhere(ErrorKind::usage,
                      "--histograms and --shard weights: no rank has all weights; leave one out");
    const SliceOwners& owners = each.optimizer->states().owners();
    Tensor gradients;
    if (!has_late_gradients(*each.optimizer))
      gradients = owners.gather(arena.gradients().slice(owners.own().begin, owners.own().end), 0);
    if (events() == nullptr) continue;
    const Tensor weights = arena.values().to(Device::cpu());
    if (gradients.defined()) {
      gradients = gradients.to(Device::cpu()).clone();
      const auto scale = static_cast<float>(each.optimizer->gradient_scale());
      for (float& gradient : gradients.span<float>()) gradient *= scale;
    }
    for (const ParameterArena::Entry& entry : arena.entries()) {
      const std::string path = optimizers.size() > 1 ? each.name + '/' + entry.path : entry.path;
      events_->add_histogram("weights/" + path, ParameterArena::part(weights, entry), step);
      if (gradients.defined())
        events_->add_histogram("gradients/" + path, ParameterArena::part(gradients, entry), step);
    }
  }
}

void TensorBoard::serialize(const Serializer& serializer) {
  serializer("file", saved_.file);
  serialize_count(serializer, "bytes", saved_.bytes);
  std::int64_t has_ended = has_ended_ ? 1 : 0;
  serialize_count(serializer, "has_ended", has_ended, 1);
  has_ended_ = has_ended == 1;
}

EventFile* events_of(const Trainer& trainer) {
  for (const std::string& name : trainer.extension_names())
    if (auto* const found = trainer.find_extension<TensorBoard>(name)) return found->events();
  return nullptr;
}

}  // namespace tasuki

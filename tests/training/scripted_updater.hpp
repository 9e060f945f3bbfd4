// An updater that trains nothing: tests say what it observes.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "saving/npz.hpp"
#include "training/trainer.hpp"

namespace tasuki::testing {

class ScriptedUpdater : public Updater {
 public:
  using Script = std::function<void(std::int64_t iteration, Observation& observation)>;
  explicit ScriptedUpdater(std::int64_t steps_per_epoch, Script script = {},
                           Optimizer* optimizer = nullptr, Communicator* communicator = nullptr)
      : steps_per_epoch_(steps_per_epoch),
        script_(std::move(script)),
        optimizer_(optimizer),
        communicator_(communicator) {}

  void update(Observation& observation) override {
    ++iteration_;
    if (script_) script_(iteration_, observation);
  }
  std::int64_t iteration() const override { return iteration_; }
  IteratorState state() const override {
    return {iteration_ / steps_per_epoch_, iteration_ % steps_per_epoch_};
  }
  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  Optimizer& optimizer() const override { return optimizer_ ? *optimizer_ : *unused_; }
  Communicator* communicator() const override { return communicator_; }
  const Module* evaluated_model() const override { return nullptr; }
  bool has_seen_examples() const override { return has_seen; }
  void serialize(const Serializer& serializer) override { serializer("iteration", iteration_); }

  bool has_seen = true;

 private:
  std::int64_t steps_per_epoch_;
  Script script_;
  Optimizer* optimizer_;
  Communicator* communicator_;
  std::unique_ptr<Optimizer> unused_ = create_optimizer("sgd");
  std::int64_t iteration_ = 0;
};

// Notes the iterations in which it runs.
inline std::unique_ptr<Extension> note_iterations(std::vector<std::int64_t>& noted) {
  return make_extension(
      "note", [&noted](Trainer& trainer) { noted.push_back(trainer.updater().iteration()); });
}

// State of one trainer put into another, through a file.
inline void transfer(Trainer& from, Trainer& to, const std::filesystem::path& path) {
  std::vector<NpzEntry> entries;
  from.serialize(Serializer::saver(entries, from.communicator()));
  if (from.is_root()) write_npz(path, entries);
  if (from.communicator()) from.communicator()->barrier();
  const auto file = to.is_root() ? std::make_unique<NpzFile>(path) : nullptr;
  to.serialize(Serializer::loader(file.get(), to.communicator()));
}

}  // namespace tasuki::testing

// TensorBoard: event files of a run (docs/tensorboard.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "saving/event_file.hpp"
#include "training/extensions/step_writer.hpp"

namespace tasuki {

// Rank 0 writes to <out>/tensorboard, at each entry of the log and at the end (step_writer.hpp):
//   - each entry of the log, with its keys as tags; the step is the iteration
//   - for each step, "step/main/loss" and what else the ranks reported in it, "step/lr",
//     "step/time/seconds" and, on CPUs, its parts
//   - the run's settings
//   - every `histograms` steps (0: never), of each parameter, "weights/<path>" and
//     "gradients/<path>": of the ranks' mean gradient, before weight decay. With several optimizers
//     the path begins with the optimizer's name. With double-buffered gradients there are only
//     weights; of a model on several ranks, rank 0's part.
// Other extensions add images and texts to events().
//
// Attach it after LogReport. The state in a snapshot is the position in the files. A run that is
// resumed removes what they have behind it and goes on in a new file. If there are no files (in
// another folder), the new one begins with all entries of the log.
class TensorBoard : public StepWriter {
 public:
  struct Settings {
    std::map<std::string, EventFile::Setting> settings = {};
    std::int64_t histograms = 0;
  };
  explicit TensorBoard(Settings settings) : settings_(std::move(settings)) {}

  std::string default_name() const override { return "TensorBoard"; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_save(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  void join_late(Trainer&, std::optional<std::int64_t>) override { knows_saved_ = false; }
  void serialize(const Serializer& serializer) override;

  // On rank 0 during a run; null otherwise, where a resumed run repeats what the files have already
  // (Extension::repeats_after_resume), and while too much waits for a disk (StepWriter::has_room).
  // What is added is written with the next entry of the log, or with the next step if it is much.
  EventFile* events() { return events_ && !is_repeating_ && has_room() ? &*events_ : nullptr; }

 protected:
  void open(Trainer& trainer) override;
  void add_row(const StepRow& row) override;
  void add_entry(Trainer& trainer, const nlohmann::ordered_json& entry, bool may_change) override;
  void write(Trainer& trainer) override;
  std::int64_t waiting() const override { return events_->waiting(); }
  std::string place(const Trainer& trainer) const override;

 private:
  void add_histograms(Trainer& trainer);

  Settings settings_;
  std::optional<EventFile> events_;
  EventPosition saved_;        // behind which a resumed run goes on
  bool knows_saved_ = true;    // false: the snapshot has no state of this extension
  bool has_ended_ = false;     // the run: all of its last iteration is before saved_
  bool is_repeating_ = false;  // the last iteration of a run that had ended
};

// The trainer's TensorBoard's event file, on rank 0; null if it has none.
EventFile* events_of(const Trainer& trainer);

}  // namespace tasuki

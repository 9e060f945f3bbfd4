// Kinds of steps: steps of one kind queue the same device work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tasuki/dataset/batch.hpp"
#include "tasuki/training/recording/number_block.hpp"
#include "tasuki/training/recording/recorded_step.hpp"
#include "tasuki/training/recording/step_report.hpp"

namespace tasuki {

// What is known about the steps of one kind.
struct StepKind {
  int runs = 0;  // without a recording
  std::uint64_t last_used = 0;
  std::shared_ptr<NumberBlock> numbers;
  StepReport report;
  std::unique_ptr<RecordedStep> recording;
};

// The name of a batch's kind: names, shapes, types and sources of its fields, examples of this rank
// and of all.
std::string kind_of(const Batch& batch, std::int64_t global_examples);

// The kinds that have occurred.
class StepKinds {
 public:
  explicit StepKinds(std::size_t most_recordings) : most_recordings_(most_recordings) {}

  // Finding a kind counts as a use. Valid until make_room() or clear().
  StepKind& find(const std::string& name);
  // Drops recordings of models that had other parts, or that depend on something that changed; such
  // steps run unrecorded again first.
  void drop_invalid(const ModelParts& parts);
  void drop_recordings();
  // Drops the least recently used kinds and recordings beyond the limits.
  void make_room();
  // Whether most_recordings recordings in a row were dropped before they were ever replayed.
  // Recordings that became invalid do not count, and restart the count.
  bool are_too_many() const { return wasted_ >= most_recordings_; }
  void clear();

 private:
  using Kinds = std::map<std::string, StepKind>;
  void keep(std::size_t most, const std::function<bool(const StepKind& kind)>& counts,
            const std::function<void(Kinds::iterator oldest)>& drop);

  std::size_t most_recordings_;
  std::size_t wasted_ = 0;  // recordings in a row that make_room() dropped unused
  std::uint64_t uses_ = 0;
  Kinds kinds_;
};

}  // namespace tasuki

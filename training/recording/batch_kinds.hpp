// Kinds of batches. Steps with batches of one kind queue the same device work, so one recording
// serves all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataset/batch.hpp"
#include "nn/module.hpp"
#include "tensor/backend.hpp"
#include "tensor/recorder.hpp"
#include "training/recording/kind_report.hpp"
#include "training/recording/number_block.hpp"

namespace tasuki {

// The addresses of models' parameters and buffers (running statistics), which change when layers
// are added or buffers replaced.
using ModelParts = std::vector<const void*>;
ModelParts parts_of(const std::vector<const Module*>& models);

// The recorded device work of a step, and everything that it depends on.
struct RecordedStep {
  struct Dependency {
    std::shared_ptr<const detail::RevisionState> revision;
    std::uint64_t number;
  };
  std::shared_ptr<NumberBlock> numbers;
  std::vector<BatchField> fields;  // sources, and where values are read
  std::vector<Dependency> dependencies;
  detail::Requests requests;  // what happens after each step that succeeds
  ModelParts parts;
  std::int64_t replays = 0;         // the first in the step that made the recording
  std::unique_ptr<Recording> work;  // destroyed first; waits for the device

  // Whether everything that it depends on is unchanged.
  bool is_valid() const;
  bool is_valid(const ModelParts& now) const { return parts == now && is_valid(); }
};

// What is known about the steps with batches of one kind.
struct BatchKind {
  int runs = 0;  // without a recording
  std::uint64_t last_used = 0;
  std::shared_ptr<NumberBlock> numbers;
  KindReport report;
  std::unique_ptr<RecordedStep> recording;
};

// The name of a batch's kind: names, shapes, types and sources of its fields, and the numbers of
// examples on this rank and on all ranks.
std::string kind_of(const Batch& batch, std::int64_t global_examples);

// The kinds that have occurred.
class BatchKinds {
 public:
  explicit BatchKinds(std::size_t most_recordings) : most_recordings_(most_recordings) {}

  // Finding a kind counts as a use. Valid until make_room() or clear().
  BatchKind& find(const std::string& name);
  // Drops recordings of models that had other parts, and recordings that depend on something that
  // changed. Steps of these kinds run unrecorded again first.
  void drop_invalid(const ModelParts& parts);
  void drop_recordings();
  // Drops the least recently used kinds and recordings beyond the limits.
  void make_room();
  // Whether most_recordings recordings in a row were dropped before they were ever replayed.
  // Recordings that became invalid do not count, and restart the count.
  bool are_too_many() const { return wasted_ >= most_recordings_; }
  void clear();

 private:
  using Kinds = std::map<std::string, BatchKind>;
  void keep(std::size_t most, const std::function<bool(const BatchKind& kind)>& counts,
            const std::function<void(Kinds::iterator oldest)>& drop);

  std::size_t most_recordings_;
  std::size_t wasted_ = 0;  // recordings in a row that make_room() dropped unused
  std::uint64_t uses_ = 0;
  Kinds kinds_;
};

}  // namespace tasuki

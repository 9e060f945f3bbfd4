// RecordedStep: the recorded device work of a step, and everything that it depends on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tasuki/dataset/batch.hpp"
#include "tasuki/nn/module.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/step_recorder.hpp"
#include "tasuki/training/recording/number_block.hpp"

namespace tasuki {

// The parameters of models, and the places of their buffers (running statistics): layers may be
// added, and may replace buffers.
using ModelParts = std::vector<const void*>;
ModelParts parts_of(const std::vector<const Module*>& models);

struct RecordedStep {
  struct Dependency {
    std::shared_ptr<const detail::RevisionState> revision;
    std::uint64_t number;
  };
  std::shared_ptr<NumberBlock> numbers;
  std::vector<BatchField> fields;  // sources, and where values are read
  std::vector<Dependency> dependencies;
  detail::Requests requests;  // what follows from a step that succeeded
  ModelParts parts;
  std::int64_t replays = 0;         // the first one in the step that made it
  std::unique_ptr<Recording> work;  // goes first, and waits for the device

  // Whether all of that is still what it was.
  bool is_valid() const;
  bool is_valid(const ModelParts& now) const { return parts == now && is_valid(); }
};

}  // namespace tasuki

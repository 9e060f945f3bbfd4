// Engine: what computes a run's steps. One engine is for a rank with one device, the other for a
// process with several (settings.workers).
#pragma once

#include <cstdint>
#include <memory>

#include "program/start/computing.hpp"
#include "program/start/setup.hpp"
#include "program/training_program.hpp"

namespace tasuki::program {

class Engine {
 public:
  virtual ~Engine() = default;
  // The device to which iterators bring batches.
  virtual Device batch_device() const = 0;
  // Trains the model on these batches. The previous updater must have been destroyed.
  virtual std::unique_ptr<Updater> create_updater(std::unique_ptr<Iterator> batches) = 0;
  // The loss for an evaluator; belongs to the last updater, which must still exist.
  virtual LossFunction evaluation_loss() = 0;
  // A step on n examples of zeros like these (zero_batch), to measure its memory. It may change the
  // model, so nothing else can be done afterwards.
  virtual void step_on_zeros(std::int64_t n, const DatasetHeader& examples) = 0;
};

// What an engine computes with; all of it outlives the engine.
struct EngineParts {
  const TrainingProgram& program;
  const RankSetup& setup;
  const DatasetHeader& data;
  TrainingModel& model;
  NamedOptimizers optimizers;  // set up for the model; one, unless create_updater takes more
  Precision precision;
};
// Also makes the optimizer keep what the precision needs.
std::unique_ptr<Engine> create_engine(const EngineParts& parts);

}  // namespace tasuki::program

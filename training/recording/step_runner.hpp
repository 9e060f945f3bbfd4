// StepRunner: runs steps of training or evaluation on a model's device. On a GPU the host does not
// wait for them, and a step is recorded once and then replayed, if possible (gpu_steps.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "optimizer/optimizer.hpp"
#include "training/observation.hpp"
#include "training/step_times.hpp"

namespace tasuki {

// automatic: steps are recorded if possible. on: an error of kind config if it is impossible. off:
// never.
enum class GraphMode : std::uint8_t { automatic, on, off };

class DeviceClock;
class GpuSteps;

class StepRunner {
 public:
  struct Settings {
    GraphMode graph = GraphMode::off;
    // Type of floating-point fields in evaluations; trainings use Optimizer::compute_type().
    DType activations = DType::float32;
    // The limit for recordings; the least recently used one is dropped first. With
    // GraphMode::automatic, no kind is recorded any more once that many recordings in a row were
    // dropped without a replay.
    std::size_t most_recordings = 16;
  };
  // For training. All optimizers update in each step and must outlive this object; if they have
  // communicators, it is the same one.
  StepRunner(const std::vector<Optimizer*>& optimizers, const Settings& settings);
  // For evaluation, without communication. The model must outlive this object.
  StepRunner(const Module& model, const Settings& settings);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  Device device() const { return device_; }
  // iterator.next(), timed as input and shown to the watchdog as loading.
  Batch read(Iterator& iterator);

  // The work of a step: queues all work on the device, using this batch, and adds scalars to
  // `seen`.
  using Work = std::function<void(const Batch& batch, Observation& seen)>;
  // Does `work` with the fields of `batch` on the device, and adds what it observed, with `prefix`,
  // to `observation`; values on a GPU arrive there once they are computed. Opens a StepScope
  // (tensor/late_values.hpp) and ends it with success.
  //
  // `work` is called once; not at all if the step is replayed or no rank has an example; twice if
  // recording it failed. It must have no other effects on the host, except through LateValues or
  // AfterStep. A recording is for batches with the same names, shapes, types and sources of fields,
  // and with the same power of two of examples on all ranks; updates get the exact number. `work`
  // that reads the ids, epoch or global size of its batch is not recorded.
  //
  // On a GPU, ranks first exchange one message (Optimizer::agree_on_step): whether their model
  // changed, whether they were asked to stop, how many examples they have, and how ready they are
  // for this batch. All do what the least ready rank can:
  //   0  not to be recorded      run
  //   1  run too few times       run
  //   2  to be recorded now      record, also on ranks that have a recording
  //   3  recorded                replay
  // After recording, another message confirms that all ranks succeeded. If the batch does not know
  // its global size, a message before these sums the examples.
  //
  // A step may have several batches, one call each, inside a StepScope of the caller; `ends_step`
  // is true for the last one. Such steps are not recorded.
  void run(const Batch& batch, Observation& observation, const Work& work,
           const std::string& prefix, bool ends_step = true);

  // The batch as `work` gets it, if the device is a CPU.
  Batch on_cpu(const Batch& batch) const;

  // Drops all recordings, for programs that replaced memory without Tasuki's knowledge.
  void forget();
  // Why steps are no longer recorded; empty while they may be.
  const std::string& why_not_recorded() const;
  std::int64_t recordings() const;  // made so far
  // From now on training steps are timed by the device's clock. On a CPU they always are; on a GPU,
  // reading the clock takes a kernel for each part of a step.
  void measure_times();
  bool measures_times() const { return clock_ != nullptr; }
  // Of the steps that were timed; waits for the device.
  StepTimes times() const;

 private:
  StepRunner(Device device, const std::vector<Optimizer*>& optimizers,
             std::vector<const Module*> models, const Settings& settings);

  DType activations() const;

  Device device_;
  const Optimizer* optimizer_;  // null: an evaluation
  DType evaluated_type_;
  std::unique_ptr<DeviceClock> clock_;  // null: steps are not timed
  std::unique_ptr<GpuSteps> on_gpu_;    // null: the device is a CPU
  // A step that has further batches: its StepScope, and the number of batches so far.
  std::uint64_t step_ = 0;
  int batches_ = 0;
};

}  // namespace tasuki

// Steps: runs the steps of a training or an evaluation on the device of a model. On a GPU the host
// does not wait for them, and a step is recorded once and replayed where that is possible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/training/observation.hpp"
#include "tasuki/training/step_times.hpp"

namespace tasuki {

// automatic: steps are recorded where that is possible. on: where it is not, that is an error of
// kind config. off: never.
enum class GraphMode : std::uint8_t { automatic, on, off };

class Steps {
 public:
  struct Settings {
    GraphMode graph = GraphMode::off;
    // Of floating-point fields on a GPU, for evaluations; trainings: Optimizer::compute_type().
    DType activations = DType::float32;
    // Recordings that are kept; the one that was not used for longest goes first. With
    // GraphMode::automatic, no kinds are added when as many in a row have gone without a replay.
    std::size_t most_recordings = 16;
  };
  // Training. The optimizers update in each step and outlive this object; those with a communicator
  // have the same one.
  Steps(const std::vector<Optimizer*>& optimizers, const Settings& settings);
  // Evaluation: each rank for itself. The model outlives this object.
  Steps(const Module& model, const Settings& settings);
  ~Steps();
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  Device device() const;
  // iterator.next(), timed as input and shown to the watchdog as loading.
  Batch read(Iterator& iterator);

  // The work of a step: asks the device for everything, through the batch it is given, and adds
  // scalars to `seen`.
  using Work = std::function<void(const Batch& batch, Observation& seen)>;
  // Does `work` with the fields of `batch` on the device, and adds what it saw, with `prefix`, to
  // `observation`; values on a GPU arrive there when they are computed. Opens a StepScope
  // (tensor/late.hpp) and ends it with success.
  //
  // `work` is called once; not at all where the step is replayed or where it is known that no rank
  // has an example; twice where recording it failed. What it does on the host besides must not
  // matter, or be a LateValues or an AfterStep. A recording belongs to the names, shapes, types and
  // sources of the batch's fields; of batch.global_size() it knows the power of two, and updates
  // know the number.
  //
  // On a GPU ranks first tell each other in one message (Optimizer::meet) whether their model
  // changed, whether they were asked to stop, how many examples they have, and how ready they are
  // for this batch: not to be recorded (0), run too few times (1), to be recorded now (2), recorded
  // (3). All do what the least ready one can: run (0, 1), record (2; also those that have a
  // recording) or replay (3). After recording they ask once more whether all succeeded.
  void run(const Batch& batch, Observation& observation, const Work& work,
           const std::string& prefix);

  // Drops all recordings: for programs that replaced memory which Tasuki cannot know of.
  void forget();
  // Why no steps are recorded any more; empty while they may be.
  const std::string& why_not_recorded() const;
  std::int64_t recordings() const;  // made so far
  // Of trainings, by the device's own clock; waits for the device.
  StepTimes times() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tasuki

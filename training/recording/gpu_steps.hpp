// GpuSteps: runs the steps of a StepRunner on a GPU. Together with the other ranks, it decides what
// to do in each step:
//   skip: nothing, because no rank has an example;
//   once: queue its work without recording it;
//   record: record its work, then replay the recording;
//   replay: replay the recording of an earlier step of the same kind, with new data.
//
// It uses:
//   BatchKinds: what is known about the steps with batches of each kind, and their recordings;
//   NumberBlock: numbers that a step's work reads from device memory, because they differ from step
//     to step;
//   FieldMemory: device memory for the values of batches, where recordings find them;
//   Journal: the scalar results of each step, which the host reads later without delaying the
//     device;
//   KindReport: which results the steps of a kind have, and where they are in the journal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/recording/batch_kinds.hpp"
#include "training/recording/field_memory.hpp"
#include "training/recording/journal.hpp"
#include "training/recording/step_runner.hpp"

namespace tasuki {

class GpuSteps {
 public:
  using Settings = StepRunner::Settings;
  using Work = StepRunner::Work;
  GpuSteps(Device device, std::vector<Optimizer*> optimizers, std::vector<const Module*> models,
           const Settings& settings);
  // Later steps note their parts on this clock.
  void measure(const Tensor& clock);

  // The position of a batch among the batches of its step.
  struct Place {
    int number = 0;  // from 0
    bool is_last = true;
    bool is_only() const { return number == 0 && is_last; }
  };
  // As StepRunner::run(), inside a StepScope.
  void run(const Batch& batch, Observation& observation, const Work& work,
           const std::string& prefix, Place place);

  void forget() { kinds_.clear(); }
  const std::string& why_not_recorded() const { return reason_; }
  std::int64_t recordings() const { return recordings_; }

 private:
  struct Step {
    Batch batch;  // with the number of examples on all ranks
    BatchKind& kind;
    const Work& work;
  };

  int readiness_of(const BatchKind& kind) const;
  bool may_record() const { return settings_.graph != GraphMode::off && reason_.empty(); }
  // From now on steps are not recorded.
  void refuse(const std::string& reason);
  void make_room();

  // Queues the device work of a step, which is the same in all steps of a kind. The fields of
  // `batch` are on the device, or have sources there.
  void ask_for_step(const Step& step, const Batch& batch);
  void widen_journal(std::int64_t columns);
  void do_once(const Step& step);
  void record(const Step& step);
  void replay(const Step& step);
  void prepare_numbers(BatchKind& kind, const Batch& batch);
  DType activations() const;

  Communicator* communicator() const;
  std::int64_t sum_over_ranks(std::int64_t own) const;
  bool all_ranks(bool yes) const { return sum_over_ranks(yes ? 0 : 1) == 0; }

  Device device_;
  std::vector<Optimizer*> optimizers_;
  std::vector<const Module*> models_;
  Settings settings_;
  Tensor clock_;  // undefined: nothing is measured
  std::string reason_;
  std::int64_t recordings_ = 0;
  FieldMemory fields_;
  Journal journal_;
  BatchKinds kinds_;
};

}  // namespace tasuki

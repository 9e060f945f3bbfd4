// Several devices of one process (--devices, --split).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "program/flags/options.hpp"
#include "program/start/setup.hpp"
#include "program/training_program.hpp"
#include "training/workers/batch_split.hpp"

namespace tasuki::program {

// --devices and --split.
void add_worker_flags(Options& options, WorkerSettings& settings);

// "0,1" are GPUs by number, each once; "cpu" is a worker on the CPU, "cpu:2" are two. Throws
// std::invalid_argument with what was expected.
std::vector<Device> parse_devices(const std::string& text);
std::string devices_text(const std::vector<Device>& devices);
// "cpu", "cuda:0, cuda:1": each device once, for messages.
std::string worker_names(const std::vector<Device>& devices);

// The split of batches. A fixed one needs a part for each device, one of them above 0; anything
// else is a usage error.
BatchSplit split_of(const WorkerSettings& settings);
// "even", "auto", "3:1".
std::string split_text(const WorkerSettings& settings);

// Threads that each worker computes with: the requested number, or the process's cores divided
// among its workers.
int threads_of_worker(const Processors& processors, const ThreadPlan& threads, std::size_t workers);

// Trains one model on several devices of this process, with a copy of it on each but the first.
// Its steps on zeros may change the model.
class Workers {
 public:
  // `model` is on the first device, with `optimizer` set up for it. All arguments outlive this
  // object.
  Workers(const TrainingProgram& program, const RankSetup& setup, const DatasetHeader& data,
          TrainingModel& model, Optimizer& optimizer);
  ~Workers();
  // The previous updater must have been destroyed.
  std::unique_ptr<Updater> create_updater(std::unique_ptr<Iterator> batches);
  // The loss for an evaluator; belongs to the last updater, which must still exist.
  LossFunction evaluation_loss() const { return evaluation_loss_; }
  // A step on n examples of zeros like these (zero_batch), to measure its memory.
  void step_on_zeros(std::int64_t n, const DatasetHeader& examples);

 private:
  class ZeroBatches;

  const TrainingProgram& program_;
  const RankSetup& setup_;
  const DatasetHeader& data_;
  TrainingModel& model_;
  Optimizer& optimizer_;
  std::vector<TrainingModel> copies_;
  LossFunction evaluation_loss_;
  std::unique_ptr<Updater> trial_;
  ZeroBatches* trial_batches_ = nullptr;  // the trial's
};

// Loads what the GPUs among the devices need. A missing driver or library is an error of kind
// unavailable, a number without a GPU one of kind config.
void prepare_devices(const std::vector<Device>& devices);

}  // namespace tasuki::program

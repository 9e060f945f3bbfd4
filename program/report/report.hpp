// What a training program prints besides the table: before training (banner lines, --dry-run) and
// after it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tasuki/program/data.hpp"
#include "tasuki/program/report/banner.hpp"
#include "tasuki/program/start/computing.hpp"
#include "tasuki/program/training_program.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki::program {

// ChainerMN's banner lines, those on data, optimizer, output folder and resumed snapshot, and
// those of TrainingProgram::banner.
BannerLines banner_lines(const TrainingProgram& program, const RankSetup& setup,
                         const NamedOptimizers& optimizers, const TrainingData& data,
                         const std::filesystem::path& out,
                         const std::optional<RunPosition>& resumed);

// For --dry-run: parameters and their shapes, steps, memory. Runs one batch of zeros through
// `loss`, forward and backward, to measure the activations (and to find a model that does not fit
// the data); nothing is updated. Memory is that of the largest rank: the model's and the data's are
// computed from their sizes, and so is the copy from which checkpoints are written; the rest is
// measured. Collective; rank 0 prints.
void print_plan(const RankSetup& setup, const TrainingSettings& settings,
                const NamedOptimizers& optimizers, const Precision& precision,
                const LossFunction& loss, const TrainingData& data);

// Measures a run from its construction to print(). It must outlive the run.
class RunSummary {
 public:
  // Attaches itself to the trainer, after all extensions and after a resume. `devices`: those that
  // the trainer computes on.
  RunSummary(Trainer& trainer, std::vector<Device> devices);
  RunSummary(const RunSummary&) = delete;  // the trainer keeps its address
  RunSummary& operator=(const RunSummary&) = delete;
  // Prints steps, speed, the largest peak memory of a rank, where the results are; the time of the
  // first epoch and the median of the others (evaluation included), accuracy, and where each rank's
  // time went. Collective; rank 0 prints.
  void print(Communicator& communicator) const;

 private:
  void note_epoch(Trainer& trainer);

  const Trainer& trainer_;
  std::vector<Device> devices_;
  std::int64_t first_iteration_;
  double first_seconds_;
  std::optional<double> epoch_began_at_;  // seconds; nothing in the middle of an epoch
  std::vector<double> epoch_seconds_;     // of whole epochs of this run
  struct Accuracy {
    double value;
    std::int64_t epoch;
  };
  std::vector<Accuracy> accuracies_;
};

// "epochs: 2.10 s (first), 1.98 s (median of the other 9)"; empty without a whole epoch.
std::string describe_epochs(std::vector<double> seconds);

}  // namespace tasuki::program

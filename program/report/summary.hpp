// The summary after a run: steps, speed, memory, accuracy, and where each rank's time went.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "training/step_times.hpp"
#include "training/trainer.hpp"

namespace tasuki::program {

// Measures a run from its first iteration to print(). It must outlive the run.
class RunSummary {
 public:
  // Attaches itself to the trainer, before a resume. `devices`: those that the trainer computes on.
  RunSummary(Trainer& trainer, std::vector<Device> devices);
  RunSummary(const RunSummary&) = delete;  // the trainer keeps its address
  RunSummary& operator=(const RunSummary&) = delete;
  // Prints steps, speed, the largest peak memory of a rank and the folder `out`; the time of the
  // first epoch and the median of the others (evaluation included); accuracy; where each rank's
  // time went. A run that was resumed at its end, and makes no steps, prints the values of the run
  // that saved the state. Collective; rank 0 prints.
  void print(Communicator& communicator, const std::filesystem::path& out) const;
  // Where this rank's time went.
  RankTimes times() const;

 private:
  class EpochEnds;
  struct Accuracy {
    double value = 0;
    std::int64_t epoch = 0;
  };
  // What one process has done of a run.
  struct Part {
    std::int64_t steps = 0;
    double seconds = 0;
    std::vector<double> epochs{};  // seconds of whole ones
    std::vector<Accuracy> accuracies{};
    RankTimes times{};
  };
  void begin();
  void note_epoch(const Observation& seen);
  Part part() const;
  void serialize(const Serializer& serializer);
  void load(const std::string& text);

  const Trainer& trainer_;
  std::vector<Device> devices_;
  std::int64_t first_iteration_ = 0;
  double first_seconds_ = 0;
  std::optional<double> epoch_began_at_;  // seconds; nothing in the middle of an epoch
  std::vector<double> epoch_seconds_;     // of whole epochs of this run
  std::vector<Accuracy> accuracies_;
  Part before_;  // of the process that saved the state from which this one goes on
};

// "epochs: 2.10 s (first), 1.98 s (median of the other 9)"; empty without a whole epoch.
std::string describe_epochs(std::vector<double> seconds);

// Bytes at the peak so far, of the rank that used most.
struct PeakMemory {
  std::size_t host = 0, device = 0;
};
// On the host, and on the GPUs among `devices`. Collective.
PeakMemory measure_peak(Communicator& communicator, const std::vector<Device>& devices);

}  // namespace tasuki::program

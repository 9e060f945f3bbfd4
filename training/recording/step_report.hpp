// StepReport: what steps of one kind return to the host.
#pragma once

#include <string>
#include <vector>

#include "tasuki/training/observation.hpp"
#include "tasuki/training/recording/journal.hpp"
#include "tasuki/training/recording/observation_parts.hpp"

namespace tasuki {

// Scalars on the device travel through the journal, in columns that are the same in all steps of a
// kind. Numbers that the host knew when it queued the work are kept beside them.
class StepReport {
 public:
  // Takes over what the step found. Returns the scalars that it has to post to the journal.
  std::vector<Tensor> take(const Observation& found);
  // Opens the journal's next row, which the step writes, and adds the results to `observation`,
  // with `prefix`.
  void deliver(Journal& journal, Observation& observation, const std::string& prefix) const;

  // Whether the host computed some of the numbers, which a replay would only repeat.
  bool has_numbers_of_host() const { return has_numbers_of_host_; }

 private:
  struct Column {
    std::string key;
    ObservationParts::Part part;
    double factor;
  };
  std::vector<Column> columns_;
  Observation rest_;
  bool has_numbers_of_host_ = false;
};

}  // namespace tasuki

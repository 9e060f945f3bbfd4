// StepReport: what steps of one kind return to the host.
#pragma once

#include <string>
#include <vector>

#include "tasuki/training/observation.hpp"
#include "tasuki/training/recording/journal.hpp"

namespace tasuki {

// Scalars on the device travel through the journal, in columns that are the same in all steps of a
// kind. Numbers that the host knew when it asked for the work are kept beside them.
class StepReport {
 public:
  // Asks the device to write what the step found to a row of the journal: the one whose number
  // `row`, a scalar on the device, holds when the work runs.
  void post(const Observation& found, const Journal& journal, const Tensor& row);
  // Opens the journal's next row, which the step writes, and adds what it finds to `observation`,
  // with `prefix`.
  void deliver(Journal& journal, Observation& observation, const std::string& prefix) const;

  // Whether the host computed some of the numbers. A replay would repeat them.
  bool has_numbers_of_host() const { return has_numbers_of_host_; }

 private:
  struct Column {
    std::string key;
    Observation::Part part;
    double factor;
  };
  std::vector<Column> columns_;
  Observation rest_;
  bool has_numbers_of_host_ = false;
};

}  // namespace tasuki

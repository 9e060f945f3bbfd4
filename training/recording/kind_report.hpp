// KindReport: the results that steps with batches of one kind return to the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "training/observation.hpp"
#include "training/recording/journal.hpp"

namespace tasuki {

// The parts of an Observation that recordings need.
class ObservationParts {
 public:
  using Part = Observation::Part;
  using Terms = Observation::Terms;

  // For each key, the part of its sum and count that the host knows, and the part that is still on
  // devices.
  static const auto& known(const Observation& seen) { return seen.values_; }
  static const Terms& terms(const Observation& seen, std::string_view key, Part part) {
    return seen.terms(key, part);
  }
  // Whether the host computed some of the numbers. Counts given together with tensors on devices do
  // not count, because they are the same in all steps of a kind.
  static bool has_numbers_of_host(const Observation& seen) { return seen.has_numbers_of_host_; }
  static void add_known(Observation& seen, std::string_view key, const Observation::Value& value) {
    seen.add_known(key, value);
  }
  // Adds the values that a journal will hold for a known key.
  static void add_journal(Observation& seen, std::string_view key, Part part,
                          const JournalSum& sum) {
    seen.add_journal(key, part, sum);
  }
};

// Scalars on the device travel through the journal, in columns that are the same in all steps of a
// kind. Numbers that the host knew when it queued the work are kept separately.
class KindReport {
 public:
  // Takes over a step's results. Returns the scalars to post to the journal.
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

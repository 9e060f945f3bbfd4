// ObservationParts: what the recording of steps needs to know of an Observation.
#pragma once

#include <string_view>

#include "tasuki/training/observation.hpp"

namespace tasuki {

class ObservationParts {
 public:
  using Part = Observation::Part;
  using Terms = Observation::Terms;

  // Keys with the part of their sums and counts that the host knows, and the part that is still on
  // devices.
  static const auto& known(const Observation& seen) { return seen.values_; }
  static const Terms& terms(const Observation& seen, std::string_view key, Part part) {
    return seen.terms(key, part);
  }
  // Whether the host computed some of that: other than counts that were given beside tensors on
  // devices, which are the same in all steps of a kind.
  static bool has_numbers_of_host(const Observation& seen) { return seen.has_numbers_of_host_; }
  static void add_known(Observation& seen, std::string_view key, const Observation::Value& value) {
    seen.add_known(key, value);
  }
  // What a journal will hold for a known key.
  static void add_journal(Observation& seen, std::string_view key, Part part,
                          const JournalSum& sum) {
    seen.add_journal(key, part, sum);
  }
};

}  // namespace tasuki

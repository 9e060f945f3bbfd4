// Which communicators a test can run with here.
#pragma once

#include <string>
#include <vector>

#include "tasuki/communicator/registry.hpp"

namespace tasuki::test {

// All registered ones that sum gradients on CPUs.
inline std::vector<std::string> summing_communicators() {
  std::vector<std::string> names;
  for (const CommunicatorKind& kind : communicator_kinds())
    if (kind.name != "dummy" && !kind.needs_gpu) names.push_back(kind.name);
  return names;
}

// Whether a communicator allows the ranks to be where they are. Collective.
inline bool is_possible_here(const std::string& name) {
  const auto placement = create_communicator("naive");
  if (name == "single_node") return placement->inter_size() == 1;
  if (name == "two_dimensional") return placement->topology().ranks_per_node() != 0;
  return true;
}

}  // namespace tasuki::test

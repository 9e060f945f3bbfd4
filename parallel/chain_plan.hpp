// ChainPlan: which ranks the components of a model exchange values with, as numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tasuki {

// Where a component's inputs come from and where its results go, as ranks of a communicator.
// Several ranks: the values of all of them, in this order; the results to each of them.
struct LinkRanks {
  std::vector<int> in{};   // empty: the model's inputs
  std::vector<int> out{};  // empty: the model's results
};

// The components of one rank, in the order in which they run.
using ChainPlan = std::vector<LinkRanks>;

// Why models with these plans, one for each rank, would wait forever, in one line that names the
// first ranks to change; nothing if they run to their ends. Assumes that a send waits for its
// receiver, as long messages do. A backward pass makes the same steps from the end.
std::optional<std::string> find_deadlock(const std::vector<ChainPlan>& plans);

}  // namespace tasuki

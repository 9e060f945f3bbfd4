// ChainPlan: the ranks with which the components of a model exchange values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tasuki {

// The ranks of a communicator from which a component gets its inputs, and to which its results go.
// With several ranks, the inputs are the values of all of them, in this order, and each gets the
// results.
struct LinkRanks {
  std::vector<int> in{};   // empty: the model's inputs
  std::vector<int> out{};  // empty: the model's results
};

// The components of one rank, in the order in which they run.
using ChainPlan = std::vector<LinkRanks>;

// Why models with these plans, one for each rank, would wait forever: one line that names the ranks
// to change first; empty if they run to the end. Assumes that a send waits for its receiver, as
// sends of long messages do. A backward pass makes the same steps in reverse.
std::optional<std::string> find_deadlock(const std::vector<ChainPlan>& plans);

// Why these plans, one for each rank, are not those of a line: one component on each rank, which
// receives from the rank before and sends to the rank after it. One line that names a rank; empty
// if they are.
std::optional<std::string> why_no_line(const std::vector<ChainPlan>& plans);

}  // namespace tasuki

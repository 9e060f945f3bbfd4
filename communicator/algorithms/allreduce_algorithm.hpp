// AllreduceAlgorithm: how an allreduce sends its messages. docs/algorithms.md compares steps and
// bytes of the algorithms.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tasuki {

enum class AllreduceAlgorithm {
  ring,              // fewest bytes, but 2 (ranks - 1) steps
  halving_doubling,  // few steps, and fewest bytes if the number of ranks is a power of two
  tree,              // few steps, but more bytes: sums go up to rank 0, and the result goes down
  direct,            // one step: every rank sends all its values to every other rank
  mpi,               // MPI_Allreduce; ranks may get results that differ in their last bits
};

// "ring", "halving-doubling", "tree", "direct", "mpi".
const char* name_of(AllreduceAlgorithm algorithm);
// Empty if the name is unknown.
std::optional<AllreduceAlgorithm> allreduce_algorithm(const std::string& name);
const std::vector<AllreduceAlgorithm>& allreduce_algorithms();

}  // namespace tasuki

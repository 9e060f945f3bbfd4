// AllreduceAlgorithm: the ways in which an allreduce can send its messages. docs/algorithms.md
// compares their steps and bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tasuki {

enum class AllreduceAlgorithm {
  ring,              // least bytes for any number of ranks; latency grows with it
  halving_doubling,  // least bytes if the number of ranks is a power of two; latency its logarithm
  tree,              // up to rank 0 and down again
  direct,            // from every rank to every other, in one step
  mpi,               // MPI_Allreduce; ranks may get results that differ in their last bits
};

// "ring", "halving-doubling", "tree", "direct", "mpi".
const char* name_of(AllreduceAlgorithm algorithm);
// Empty for another name.
std::optional<AllreduceAlgorithm> allreduce_algorithm(const std::string& name);
const std::vector<AllreduceAlgorithm>& allreduce_algorithms();

}  // namespace tasuki

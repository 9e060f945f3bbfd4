#include "communicator/algorithms/allreduce_algorithm.hpp"

namespace tasuki {

const char* name_of(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::ring:
      return "ring";
    case AllreduceAlgorithm::halving_doubling:
      return "halving-doubling";
    case AllreduceAlgorithm::tree:
      return "tree";
    case AllreduceAlgorithm::direct:
      return "direct";
    case AllreduceAlgorithm::mpi:
      return "mpi";
  }
  return "unknown";
}

std::optional<AllreduceAlgorithm> allreduce_algorithm(const std::string& name) {
  for (const AllreduceAlgorithm each : allreduce_algorithms())
    if (name == name_of(each)) return each;
  return std::nullopt;
}

const std::vector<AllreduceAlgorithm>& allreduce_algorithms() {
  static const std::vector<AllreduceAlgorithm> all{
      AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::tree,
      AllreduceAlgorithm::direct, AllreduceAlgorithm::mpi};
  return all;
}

}  // namespace tasuki

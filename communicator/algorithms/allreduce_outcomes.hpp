// AllreduceOutcomes: how long allreduces took and how long they were predicted to take, for
// --verbose.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tasuki/communicator/algorithms/allreduce_algorithm.hpp"
#include "tasuki/communicator/algorithms/cost.hpp"

namespace tasuki {

class AllreduceOutcomes {
 public:
  // Of an allreduce of so many bytes on the wire. After the tenth of a length a line says the
  // algorithm, the prediction and the median; for the first three lengths of 64 KiB and more.
  void add(AllreduceAlgorithm algorithm, double bytes, int ranks, const Link& link, double seconds);

 private:
  std::map<double, std::vector<double>> seconds_;  // by bytes
};

}  // namespace tasuki

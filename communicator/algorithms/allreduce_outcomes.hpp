// AllreduceOutcomes: how long allreduces took and how long they were predicted to take, for
// --verbose.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tasuki/communicator/algorithms/allreduce_algorithm.hpp"

namespace tasuki {

class AllreduceOutcomes {
 public:
  struct Outcome {
    const char* operation = "";  // "allreduce" or "reduce-scatter"
    AllreduceAlgorithm algorithm{};
    int ranks = 0;
    double bytes = 0;      // the vector's on the wire
    double predicted = 0;  // seconds
  };
  // After the tenth operation of a length it logs the algorithm, the prediction and the median, for
  // the first three lengths from 64 KiB on.
  void add(const Outcome& expected, double seconds);

 private:
  std::map<double, std::vector<double>> seconds_;  // by bytes
};

}  // namespace tasuki

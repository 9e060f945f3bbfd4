// AllreduceOutcomes: measured and predicted times of allreduces, for --verbose.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "communicator/algorithms/allreduce_algorithm.hpp"

namespace tasuki {

class AllreduceOutcomes {
 public:
  struct Outcome {
    const char* operation = "";  // "allreduce" or "reduce-scatter"
    AllreduceAlgorithm algorithm{};
    int ranks = 0;
    double bytes = 0;      // length of the vector as it travels
    double predicted = 0;  // seconds
  };
  // Adds the time of one operation. The tenth operation of a length logs algorithm, prediction and
  // median time, but only for the first three lengths of at least 64 KiB.
  void add(const Outcome& expected, double seconds);

 private:
  std::map<double, std::vector<double>> seconds_;  // by bytes
};

}  // namespace tasuki

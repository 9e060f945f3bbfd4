// PlannedAllreduce: allreduces and reduce-scatters between some ranks, by a given algorithm or by
// the algorithm with the least predicted time for the number of bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/algorithms/algorithm_cost.hpp"
#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "communicator/algorithms/allreduce_outcomes.hpp"
#include "communicator/algorithms/division.hpp"
#include "communicator/algorithms/message_plan.hpp"
#include "communicator/algorithms/plan_run.hpp"
#include "communicator/mpi/transfer_sizes.hpp"

namespace tasuki {

// Must be the same on all ranks.
struct AllreduceSettings {
  std::optional<AllreduceAlgorithm> algorithm{};  // empty: the fastest by prediction
  TransferSizes sizes{};
  Network network = gigabit_ethernet;  // for predicted times
};

class PlannedAllreduce {
 public:
  // Plans for `rank`, one of `ranks`. This may be another rank than the caller's: the ranks of a
  // node work on the plan of their leader.
  PlannedAllreduce(int rank, int ranks, AllreduceSettings settings)
      : rank_(rank), ranks_(ranks), settings_(settings) {}

  // "ring"; "the fastest algorithm as predicted" if the settings name none.
  std::string describe() const;
  // The algorithm for values that travel as `type`.
  AllreduceAlgorithm algorithm_for(const Division& division, DType type) const;
  // The plan of algorithm_for(division, type), valid until the next call. For one rank alone, and
  // for MPI's own algorithm, the vector is one piece. A reduce-scatter never uses MPI's own.
  const MessagePlan& plan_for(const Division& division, DType type);
  // Whether start() can be used: all algorithms but MPI's own.
  bool runs_in_slices() const { return settings_.algorithm != AllreduceAlgorithm::mpi; }
  // Starts run() in slices. The values, `comm` and this object outlive the result. Do not call
  // plan_for() during the run.
  std::unique_ptr<PlanRun> start(void* values, const Division& division, DType type, ReduceOp op,
                                 MPI_Comm comm, PieceWork work = {}, const Wire& wire = {});
  // Combines `values` of all ranks of `comm` in place, by plan_for(division, wire.type_of(type)).
  // Sums of float32 travel in the format of `wire`, which MPI's own algorithm does not support.
  // Elements that a rank does not get may have any values afterwards.
  void run(void* values, const Division& division, DType type, ReduceOp op, MPI_Comm comm,
           const PieceWork& work = {}, const Wire& wire = {});

 private:
  struct Planned {
    MessagePlan messages;
    AllreduceOutcomes::Outcome expected;
  };

  std::optional<AllreduceAlgorithm> wanted_for(const Division& division) const;
  bool is_left_to_mpi(const Division& division, DType type) const;
  const Planned& planned(const Division& division, DType type);
  MessagePlan messages_for(const Division& division, DType type) const;
  AllreduceOutcomes::Outcome expected_of(const Division& division, DType type) const;

  int rank_, ranks_;
  AllreduceSettings settings_;
  std::map<std::vector<std::int64_t>, Planned> plans_;  // by division and bytes of an element
  AllreduceOutcomes outcomes_;
};

}  // namespace tasuki

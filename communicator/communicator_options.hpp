// The settings of a communicator.
#pragma once

#include <optional>
#include <string>

#include "communicator/algorithms/algorithm_cost.hpp"
#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "communicator/mpi/transfer_sizes.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki {

class MpiComm;

struct CommunicatorOptions {
  Device device = Device::cpu();      // of this rank
  DType wire_dtype = DType::float32;  // the type in which gradients travel
  bool gpu_is_shared = false;         // ranks may share a GPU; the same value on all ranks
  TransferSizes sizes{};
  // For kinds that send the messages of an allreduce themselves. Empty: the algorithm with the
  // least predicted time (algorithms/algorithm_cost.hpp); for flat, MPI_Allreduce.
  std::optional<AllreduceAlgorithm> algorithm{};
  // The links from which times are predicted: between two nodes, and between two ranks of a node
  // for kinds that exchange messages there. The same on all ranks; algorithms/link_probe.hpp
  // measures them.
  Link link = gigabit_ethernet, link_inside = shared_memory_messages;
};

// The argument of a kind's constructor, which passes it on to Communicator.
struct CommunicatorSetup {
  std::string name;  // of the kind, as registered
  CommunicatorOptions options{};
  // MPI's handle of the ranks (mpi/mpi.hpp), used only during construction; null: all ranks of the
  // job.
  const MpiComm* ranks = nullptr;
  // The kind that chose this one (auto), and why; empty: the caller chose it.
  std::string chosen_by{}, reason{};
};

}  // namespace tasuki

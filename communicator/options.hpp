// What a communicator is made from.
#pragma once

#include <optional>
#include <string>

#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "communicator/algorithms/cost.hpp"
#include "communicator/mpi/transfer_sizes.hpp"
#include "tensor/device.hpp"
#include "tensor/dtype.hpp"

namespace tasuki {

class MpiComm;

struct CommunicatorOptions {
  Device device = Device::cpu();      // of this rank
  DType wire_dtype = DType::float32;  // in which gradients travel; float16 and bfloat16 are rounded
  bool gpu_is_shared = false;         // ranks may share a GPU; the same value on all ranks
  TransferSizes sizes{};
  // For kinds that send an allreduce's messages themselves. Empty: the algorithm with the least
  // predicted time (algorithms/cost.hpp), or MPI_Allreduce for flat.
  std::optional<AllreduceAlgorithm> algorithm{};
  // Times are predicted from these links, which are the same on all ranks: between two nodes, and
  // between two ranks of a node for kinds that exchange messages there. algorithms/link_probe.hpp
  // measures them.
  Link link = gigabit_ethernet, link_inside = shared_memory_messages;
};

// Kinds pass it on to Communicator as it is.
struct CommunicatorSetup {
  std::string name;  // of the kind, as registered
  CommunicatorOptions options{};
  // MPI's handle of the ranks (mpi/mpi.hpp), read by the constructor alone; null: all of the job.
  const MpiComm* ranks = nullptr;
  // The kind that chose this one (auto), and why; empty: none did.
  std::string chosen_by{}, reason{};
};

}  // namespace tasuki

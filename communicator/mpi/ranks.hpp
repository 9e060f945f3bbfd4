// The ranks of a communicator: which they are, where they are, and MPI's handles for them.
#pragma once

#include "communicator/communicator.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/topology.hpp"

namespace tasuki {

// The ranks that a communicator is to be made of.
MPI_Comm mpi_ranks(const CommunicatorSetup& setup);

// Where they are, by asking MPI and the system. Collective over `comm`.
Topology discover_topology(MPI_Comm comm);

// One MPI communicator per sender, so that none receives another's messages.
struct Communicator::Handles {
  // Collective over `ranks`.
  explicit Handles(MPI_Comm ranks);
  MpiComm collectives;
  MpiComm messages;            // of send and recv, which may take any source and any tag
  MpiComm users;               // mpi_comm()
  std::vector<int> job_ranks;  // of each rank: its number in MPI_COMM_WORLD
};

}  // namespace tasuki

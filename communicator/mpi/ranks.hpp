// The ranks of a communicator: who they are, where they run, and MPI's handles for them.
#pragma once

#include "communicator/communicator.hpp"
#include "communicator/mpi/departures.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/topology.hpp"

namespace tasuki {

// MPI's handle of the ranks in a setup.
MPI_Comm mpi_ranks(const CommunicatorSetup& setup);

// Finds out where the ranks run, by asking MPI and the system. Collective over `comm`.
Topology discover_topology(MPI_Comm comm);

// For each rank, its number in MPI_COMM_WORLD.
std::vector<int> world_ranks_of(MPI_Comm comm);

// One MPI communicator per kind of use, so that messages never mix.
struct Communicator::Handles {
  // Collective over `ranks`.
  explicit Handles(MPI_Comm ranks);
  // While an exception unwinds the communicator's scope, tells the other ranks (leave.hpp).
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  // Keeps a further handle of this communicator's.
  MPI_Comm add(MpiComm part);

  MpiComm collectives;
  MpiComm messages;            // for send and recv, which may take any source and any tag
  MpiComm users;               // mpi_comm()
  std::vector<MpiComm> parts;  // of kinds, and the check's of operations
  std::vector<int> job_ranks;  // for each rank, its number in MPI_COMM_WORLD
  Departures departures{collectives};
};

}  // namespace tasuki

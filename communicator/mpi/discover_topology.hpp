// Finds the topology of a communicator's ranks by asking MPI and the system.
#pragma once

#include "tasuki/communicator/mpi/mpi.hpp"
#include "tasuki/communicator/topology.hpp"

namespace tasuki {

// Collective over `comm`.
Topology discover_topology(MPI_Comm comm);

}  // namespace tasuki

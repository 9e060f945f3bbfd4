// MPI's handles of a Communicator.
#pragma once

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/communicator/mpi/mpi.hpp"

namespace tasuki {

// The ranks that a communicator is to be made of.
MPI_Comm mpi_ranks(const CommunicatorSetup& setup);

// One MPI communicator per sender, so that none receives another's messages.
struct Communicator::Handles {
  // Collective over `ranks`.
  explicit Handles(MPI_Comm ranks);
  MpiComm collectives;
  MpiComm messages;  // of send and recv, which may take any source and any tag
  MpiComm users;     // mpi_comm()
};

}  // namespace tasuki

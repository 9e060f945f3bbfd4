// Connects the GPUs of a communicator's ranks.
#pragma once

#include <mpi.h>

#include <memory>

#include "tasuki/communicator/gpu/gpu_transport.hpp"

namespace tasuki {

// The group of the GPUs of all ranks of `comm`. The first rank makes the id and MPI broadcasts it;
// if that fails, all ranks throw the error. A single rank gets a group that does nothing and does
// not involve NCCL. Collective.
std::unique_ptr<GpuGroup> connect_gpus(GpuTransport& transport, GpuChannel& channel, MPI_Comm comm);

}  // namespace tasuki

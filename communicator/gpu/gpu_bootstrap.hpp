// Connecting the GPUs of a communicator's ranks.
#pragma once

#include <mpi.h>

#include <memory>

#include "tasuki/communicator/gpu/gpu_transport.hpp"

namespace tasuki {

// The group of the GPUs of all ranks of `comm`: its first rank makes the id, MPI carries it to the
// others. A failure to make it is met by all. One rank alone gets a group that does nothing,
// without NCCL ever being asked. Collective.
std::unique_ptr<GpuGroup> connect_gpus(GpuTransport& transport, GpuChannel& channel, MPI_Comm comm);

}  // namespace tasuki

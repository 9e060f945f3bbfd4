#include <mpi.h>

#include "communicator/gpu/gpu_transport.hpp"
#include "communicator/gpu/shared_gpu.hpp"
#include "communicator/mpi/mpi.hpp"
#include "tensor/cuda_loading/loader.hpp"
#include "tests/communicator/gpus_of_the_test.hpp"

// Ranks share the GPUs there are, round robin.
tasuki::testing::OwnGpu tasuki::testing::own_gpu() {
  int rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  static const bool prepared = [rank] {
    constexpr bool one_node = true;
    prepare_shared_gpu(rank, one_node);
    return true;
  }();
  static_cast<void>(prepared);
  try {
    return {Device::cuda(rank % load_cuda_backend()), ""};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return {std::nullopt, error.what()};
  }
}

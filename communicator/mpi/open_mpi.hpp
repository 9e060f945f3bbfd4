// What differs between versions of Open MPI.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace tasuki {

// The major version, 0 for another MPI. Up to 4, mpirun belongs to the runtime ORTE; from 5 on, to
// PRRTE, which is another program and has other parameters.
#ifdef OMPI_MAJOR_VERSION
inline constexpr int open_mpi_version = OMPI_MAJOR_VERSION;
#else
inline constexpr int open_mpi_version = 0;
#endif

// What a rank may take of /dev/shm, in bytes: twice what Open MPI uses.
inline constexpr std::uintmax_t shared_memory_of_rank = 8 << 20;

}  // namespace tasuki

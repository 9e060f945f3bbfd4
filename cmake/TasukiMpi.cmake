# The MPI that was found, and its launcher: PATH may have another one's.
#
#   TASUKI_MPI            what the library calls itself: "Open MPI v4.1.4", "MPICH Version: 4.0.2"
#   TASUKI_MPI_IS_HYDRAS  whether its launcher is Hydra: MPICH, Intel MPI
#   TASUKI_MPIEXEC        that launcher; empty if it was not found

string(REGEX MATCH "^[^,\n]*" TASUKI_MPI "${MPI_CXX_LIBRARY_VERSION_STRING}")
string(REGEX REPLACE "[ \t]+" " " TASUKI_MPI "${TASUKI_MPI}")
cmake_path(GET MPI_CXX_COMPILER PARENT_PATH mpi_programs)
if(TASUKI_MPI MATCHES "^(MPICH Version|Intel\\(R\\) MPI)")
  set(TASUKI_MPI_IS_HYDRAS ON)
  set(launchers mpiexec.hydra)  # always MPICH's or Intel's
else()
  set(TASUKI_MPI_IS_HYDRAS OFF)
  set(launchers mpirun mpiexec)
endif()
find_program(mpi_launcher NAMES ${launchers} HINTS ${mpi_programs} NO_CACHE NO_DEFAULT_PATH)
set(TASUKI_MPIEXEC)
if(mpi_launcher)
  set(TASUKI_MPIEXEC ${mpi_launcher})
endif()

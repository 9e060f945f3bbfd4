// How many ranks a launcher has started, by its own account. A launcher of another MPI than the one
// that a program was built with starts processes each of which is a job of one rank.
#pragma once

#include <optional>
#include <string>

namespace tasuki {

struct LaunchedRanks {
  std::string launcher;  // name of its process
  std::string variable;  // with which it says so
  int size = 1;
  int rank = 0;
};

// What the nearest launcher among this process's ancestors says: Open MPI's, MPICH's and its
// relatives' (hydra), or Slurm's srun. Nothing if there is none, or if it says nothing to this
// process. Scripts in between do not count, nor does the size of an allocation in which no launcher
// was called, nor the tasks of a step that has a terminal (srun --pty), in which a user types. Must
// be called before MPI_Init, which may set the same variables.
std::optional<LaunchedRanks> launched_ranks();

// Whether the launcher has started several ranks, of which MPI, with a job of `world_size`, knows
// one.
bool is_of_another_mpi(const std::optional<LaunchedRanks>& launched, int world_size);

// The error about it, of kind config. Must be called after MPI_Init.
[[noreturn]] void refuse_launcher(const LaunchedRanks& launched);

}  // namespace tasuki

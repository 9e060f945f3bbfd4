// The launcher that started this process: Open MPI's mpirun, or its daemon on another host; or
// mpiexec of Hydra, the launcher of MPICH and Intel MPI, or its proxy on another host. And how many
// ranks a launcher, perhaps of another MPI, says that it has started.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace tasuki {

// Whether a process of this name is Open MPI's daemon; the second, the daemon or mpirun (by any of
// its names).
bool is_daemon_name(std::string_view name);
bool is_launcher_name(std::string_view name);

// Whether the launcher of a job with this name (PMIX_NAMESPACE) ends with the job. Open MPI 4's
// names are numbers. PRRTE's begin with the program that the daemons belong to:
// "prterun-HOST-PID@1" for mpirun's own, "prte-HOST-PID@7" for a virtual machine's, which other
// jobs share. Open MPI 3's virtual machine cannot be distinguished from mpirun.
bool is_launcher_of_one_job(std::string_view job);

// The mpirun or mpiexec that started this process, directly or through a script, or on other hosts
// its daemon or proxy; 0: none.
pid_t launcher_process();
bool was_started_by_hydra();

// What messages call a launcher's process of this name; empty: its part on another host.
std::string_view title_of_launcher(std::string_view process);

// Whether this process is rank 0, or the lowest rank of its host, as far as the environment
// variables of Open MPI's launchers, Hydra or Slurm tell before MPI_Init.
bool is_first_rank();
bool is_first_rank_of_host();

struct LaunchedRanks {
  std::string launcher;  // name of its process
  std::string variable;  // the environment variable that tells `size`
  int size = 1;
  int rank = 0;
};

// What the nearest launcher among this process's ancestors says: Open MPI's, MPICH's and its
// relatives' (hydra), or Slurm's srun. Nothing if there is none, or if it says nothing to this
// process. Scripts in between do not count, nor does the size of an allocation in which no launcher
// was called, nor the tasks of a step that has a terminal (srun --pty), in which a user types. Must
// be called before MPI_Init, which may set the same variables.
std::optional<LaunchedRanks> launched_ranks();

// Whether the launcher belongs to another MPI than the one that this program was built with: it has
// started several ranks, each of which is a job of one rank (`world_size`) for this MPI.
bool is_of_another_mpi(const std::optional<LaunchedRanks>& launched, int world_size);

// Throws the error about such a launcher, of kind config. Must be called after MPI_Init.
[[noreturn]] void refuse_launcher(const LaunchedRanks& launched);

}  // namespace tasuki

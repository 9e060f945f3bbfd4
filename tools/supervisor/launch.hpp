// The command that starts the ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/mca_parameters.hpp"
#include "tools/supervisor/program.hpp"
#include "tools/supervisor/settings.hpp"

namespace tasuki::supervisor {

// The relevant part of Slurm's environment variables inside a job.
struct SlurmJob {
  int nodes = 1;
  std::optional<int> tasks, tasks_per_node, cpus_per_task;
  bool is_on_node = true;  // this machine is one of the nodes, hence the first one
};

// The surroundings that tasuki-run finds.
struct Surroundings {
  std::string mpirun = "mpirun";  // the launcher; a path if PATH does not have it
  MpiRuntime runtime = MpiRuntime::orte;
  int cores = 1;  // of this machine
  bool is_root = false;
  std::vector<std::string> exported;  // environment variables that ranks on other hosts also need
  std::string tune;                   // the file mca-params.conf; empty: not found
  std::vector<std::filesystem::path> mca_files;  // the user's and the system's
  std::string start_orted;        // the script; empty: not found, or another agent is chosen
  std::string srun_mpi = "pmix";  // how srun is to speak to the ranks; empty: Slurm's default
  std::optional<SlurmJob> slurm;
  // mpirun may find hosts by itself, in a default hostfile or from another scheduler.
  bool may_have_other_hosts = false;
  std::uintmax_t shared_memory = 0;  // free bytes where ranks of one machine share memory
};
// The launcher is $TASUKI_MPIEXEC; else mpirun in PATH, or beside the MPI library; with Hydra,
// mpiexec.hydra beside the library, or in PATH, where another MPI's may be. Throws an error of kind
// unavailable if there is none (or no srun).
Surroundings look_around(LauncherKind launcher);

// The placement of ranks in one start.
struct Placement {
  std::optional<int> np;       // nothing: the launcher decides
  std::string hostfile;        // for mpirun; empty: this machine, or Slurm's hosts
  std::optional<int> slots;    // of all hosts, if known
  bool is_here = true;         // all hosts are this machine
  bool needs_domains = false;  // host names differ only in their domains
};

// Whether each rank has a core of this machine, and none is left.
bool has_one_core_each(const Surroundings& around, const Placement& placement);

// The default number of ranks on these hosts, or, without hosts, in a Slurm job or on this machine;
// nothing if only the launcher knows, or if `launcher_words` set the number per host.
std::optional<int> default_np(const Surroundings& around, const std::vector<Host>& hosts,
                              const std::vector<std::string>& launcher_words = {});

// The placement of `np` ranks; `hostfile` has these hosts.
Placement place(const Surroundings& around, std::optional<int> np, const std::vector<Host>& hosts,
                const std::string& hostfile);

// A word as a user would type it in a shell.
std::string quoted(const std::string& word);

// A command, and the variables that it needs in addition to this process's.
struct Launch {
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> words;
  bool reads_input = false;  // this process's standard input, unless that is a terminal
  // Only with Hydra, which may wait for other hosts forever, or be unable to stop ranks there.
  bool has_other_hosts = false;
  // Its standard output passes through this process if that is a pipe or socket. Hydra's mpiexec
  // would end the ranks without time to save once its output has no reader.
  bool passes_output = false;

  std::string text() const;  // as a user would type it
};

// The command that starts the ranks. For Hydra see hydra.hpp; with Open MPI it takes care of the
// following:
// - root needs two variables; ranks on other hosts need some variables of this process;
// - more ranks than slots need --oversubscribe;
// - a rank that has more than one core computes with several threads, so it must not be bound to
//   one core (program/start/processors.hpp); in a Slurm job it is bound to its task's cores;
// - mca-params.conf and start_orted notice lost hosts (hostfiles/README.md). The user's own
//   settings (mca_parameters.hpp) win over that file, whose other settings are then passed one by
//   one, as all are with PRRTE;
// - ranks of one machine exchange messages in shared memory, if there is room, and open no port for
//   them;
// - hosts whose names differ only in their domains need orte_keep_fqdn_hostnames;
// - mca-params.conf has mpirun kill ranks right after SIGTERM. Tasuki's programs have saved by then
//   (StopRequest). Other programs end by SIGTERM, so they get Open MPI's default time, or
//   --stop-timeout. The default is not longer because mpirun also waits that long before SIGTERM,
//   and twice that long when a rank has failed. PRRTE's time cannot be set.
// settings.launcher_words replace these words where they have the same purpose. `words`: of this
// start (Program::words_to_continue).
Launch make_launch(const SupervisorSettings& settings, const Surroundings& around,
                   const Placement& placement, const Program& program,
                   const std::vector<std::string>& words);

}  // namespace tasuki::supervisor

// The command that starts the ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/supervisor/hostfile.hpp"
#include "tools/supervisor/program.hpp"
#include "tools/supervisor/settings.hpp"

namespace tasuki::supervisor {

// The part of Slurm's environment variables that matters inside a job.
struct SlurmJob {
  int nodes = 1;
  std::optional<int> tasks, tasks_per_node, cpus_per_task;
  bool is_on_node = true;  // this machine is one of the nodes, and so the first one
};

// What tasuki-run finds around itself.
struct Surroundings {
  std::string mpirun = "mpirun";  // a path if PATH does not have it
  int cores = 1;                  // of this machine
  bool is_root = false;
  std::vector<std::string> exported;  // environment variables that ranks on other hosts need, too
  std::string tune;                   // the file mca-params.conf; empty: not found
  std::vector<std::filesystem::path> mca_files;  // the user's and the system's
  std::string start_orted;  // the script; empty: not found, or another agent is chosen
  std::optional<SlurmJob> slurm;
  // mpirun may take hosts without being told: from a default hostfile, or from another scheduler.
  bool may_have_other_hosts = false;
  std::uintmax_t shared_memory = 0;  // free bytes where ranks of one machine share memory
};
// An error of kind unavailable if there is no mpirun (or srun).
Surroundings look_around(LauncherKind launcher);

// Where ranks run in one start.
struct Placement {
  std::optional<int> np;       // nothing: as the launcher decides
  std::string hostfile;        // to be given to mpirun; empty: this machine, or Slurm's
  std::optional<int> slots;    // of all hosts, if known
  bool is_here = true;         // all hosts are this machine
  bool needs_domains = false;  // names of hosts differ in them alone
};

// The number of ranks if none is asked for, on these hosts, or without hosts in a Slurm job or
// here; nothing if only the launcher knows, or if `launcher_words` say how many each host gets.
std::optional<int> default_np(const Surroundings& around, const std::vector<Host>& hosts,
                              const std::vector<std::string>& launcher_words = {});

// Of `np` ranks; `hostfile` has these hosts.
Placement place(const Surroundings& around, std::optional<int> np, const std::vector<Host>& hosts,
                const std::string& hostfile);

// A word as one would type it in a shell.
std::string quoted(const std::string& word);

// A command, and the variables that it needs besides this process's.
struct Launch {
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> words;
  bool reads_input = false;  // this process's standard input, unless that is a terminal

  std::string text() const;  // as one would type it
};

// What a person would have to know:
// - root needs two variables; ranks elsewhere need some variables of this process;
// - more ranks than slots need --oversubscribe;
// - a rank that has more than one core computes with several threads, so it must not be bound to
//   one core (program/start/processors.hpp); in a Slurm job it is bound to its task's cores;
// - mca-params.conf and start_orted notice lost hosts (hostfiles/README.md). What the user has set
//   anywhere (mca_parameters.hpp) wins over that file, whose other settings are then given one by
//   one;
// - ranks of one machine exchange messages in shared memory while there is room, and open no port
//   for them;
// - hosts whose names differ in their domains alone need orte_keep_fqdn_hostnames;
// - mca-params.conf has mpirun kill ranks right after SIGTERM. Tasuki's programs have saved by then
//   (StopRequest); others end by SIGTERM, so that they get what Open MPI gives by default, or
//   --stop-timeout. It is no more by default because mpirun waits that long before SIGTERM, too,
//   and twice that long when a rank has failed.
// Words in settings.launcher_words replace those for the same purpose.
// `words`: of this start (Program::words_to_continue).
Launch make_launch(const SupervisorSettings& settings, const Surroundings& around,
                   const Placement& placement, const Program& program,
                   const std::vector<std::string>& words);

}  // namespace tasuki::supervisor

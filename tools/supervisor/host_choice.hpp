// HostChoice: the hosts on which a job starts, and the number of ranks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "tools/processes/memory_file.hpp"
#include "tools/supervisor/host_check.hpp"
#include "tools/supervisor/incidents.hpp"
#include "tools/supervisor/launch.hpp"
#include "tools/supervisor/program.hpp"
#include "tools/supervisor/stop_request.hpp"

namespace tasuki::supervisor {

// Events are reported through `incidents`. A signal that asks for the end of the job while this
// object asks or waits for hosts is passed to `stop`.
class HostChoice {
 public:
  // Takes all hosts of the hostfile. Errors are of kind usage if --min-np does not fit, config if
  // there is no host.
  HostChoice(const SupervisorSettings& settings, const Surroundings& around, const Program& program,
             const Signals& signals, StopRequest& stop, Incidents& incidents);

  // Chooses the hosts that answer, if they have room for --min-np ranks; otherwise waits for the
  // others, at most --host-timeout. False: gave up, or a signal came.
  bool choose_again();
  // Ignores --min-np from now on, because the program cannot continue with fewer ranks. False if
  // the job has as many as at the first start.
  bool require_all();

  Placement placement() const;
  // np and hosts, if known.
  nlohmann::ordered_json entries() const;
  // Whether rank 0 runs on this machine, and so uses this machine's disks.
  bool is_rank_0_here() const;

 private:
  void note(const std::vector<Host>& good);
  void take(const std::vector<Host>& good, int np);

  const SupervisorSettings& settings_;
  const Surroundings& around_;
  const Program& program_;
  const Signals& signals_;
  StopRequest& stop_;
  Incidents& incidents_;
  std::vector<Host> all_, used_;
  std::optional<int> np_, present_np_;  // at the first start; at the next one
  bool are_fewer_allowed_;
  // The hostfile for mpirun, if mpirun cannot use the user's file.
  std::unique_ptr<processes::MemoryFile> own_hostfile_;
};

}  // namespace tasuki::supervisor

// HostChoice: on which hosts a job starts, and with how many ranks.
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

// What happens is said, and added to `incidents`. A signal that asks for the end of the job while
// hosts are asked or waited for is handed to `stop`.
class HostChoice {
 public:
  // All hosts of the hostfile. Errors are of kind usage if --min-np does not fit, config if there
  // is no host.
  HostChoice(const SupervisorSettings& settings, const Surroundings& around, const Program& program,
             const Signals& signals, StopRequest& stop, Incidents& incidents);

  // Chooses the hosts that answer, if they take --min-np ranks; else waits for the others, at most
  // --host-timeout. False: gave up, or a signal came.
  bool choose_again();
  // --min-np counts no longer, as the program cannot go on with fewer ranks. False if there are as
  // many as at the first start.
  bool require_all();

  Placement placement() const;
  // np and hosts, as far as they are known.
  nlohmann::ordered_json entries() const;
  // Whether rank 0 runs on this machine, so that its disks are those of this one.
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
  // What mpirun reads if it cannot be the user's file.
  std::unique_ptr<processes::MemoryFile> own_hostfile_;
};

}  // namespace tasuki::supervisor

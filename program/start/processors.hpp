// The machine: processors of this node, and how many threads a rank computes with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/control_groups.hpp"

namespace tasuki::program {

struct Processors {
  int cores = 1;  // cores that the job may use on this node, a container's CPU quota included
  std::vector<int> cpus;  // logical CPUs that this process may run on, ascending
};
Processors find_processors();

// How many CPUs the control groups let this process use at a time, 1.5 for example; nothing if they
// set no limit.
std::optional<double> cpu_quota(const ControlGroupFiles& files = {});

// The version of the interface of the hwloc that is loaded: "2.9.0".
std::string hwloc_version();
// The number of NUMA nodes, at least 1.
int memory_nodes();

// An id of the running system. Containers and network namespaces of one machine have the same id;
// empty if the system has none.
std::string system_id();

// In one line, for tables and records: "2 cores of Intel(R) Xeon(R) ..., Linux 6.1".
std::string describe_machine();

// CPUs next to a PCI device ("0000:4f:00.0"), ascending, from hwloc; none if all CPUs are equally
// near or the machine does not tell.
std::vector<int> cpus_near(const std::string& pci_bus_id);
// The socket that has all of these CPUs; nothing if several sockets have them, or none is known.
std::optional<int> socket_of(std::span<const int> cpus);
// The CPUs that are in both; all of `allowed` if there are none.
std::vector<int> preferred_cpus(std::span<const int> allowed, std::span<const int> nearby);
// Binds the calling thread, and threads that it starts later, to these CPUs; false if that is not
// allowed.
bool run_on(std::span<const int> cpus);

// "0-3,8" for CPUs 0, 1, 2, 3 and 8.
std::string cpu_list(std::span<const int> cpus);

// The requested number of threads per rank, and where the request came from.
struct ThreadRequest {
  int threads = 1;
  std::string origin;  // "--threads", "OMP_NUM_THREADS"
};
// --threads, else the first number in the text of OMP_NUM_THREADS (null: not set), else nothing;
// also if that is not one of thread_numbers (flag_groups.hpp).
std::optional<ThreadRequest> requested_threads(std::optional<std::int64_t> flag,
                                               const char* omp_num_threads);

struct ThreadPlan {
  int threads = 1;
  // Threads lost because the affinity mask has fewer CPUs than a rank's share of the cores; 0 if
  // the number was requested.
  int lost_to_binding = 0;
  std::string origin;  // of the request; empty without one
};
// What was requested, else max(1, min(cores / ranks on the node, CPUs in the affinity mask)).
ThreadPlan plan_threads(const std::optional<ThreadRequest>& request, int cores, int ranks_on_node,
                        int cpus_in_mask);

}  // namespace tasuki::program

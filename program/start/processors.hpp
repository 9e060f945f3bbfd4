// Processors of this node, and how many threads a rank computes with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tasuki::program {

struct Processors {
  int cores = 1;  // cores that the job may use on this node, a container's CPU quota included
  std::vector<int> cpus;  // logical CPUs that this process may run on, ascending
};
Processors find_processors();

// CPUs next to a PCI device ("0000:4f:00.0"), ascending, as far as hwloc knows: none where every
// CPU is as near, or the machine does not say.
std::vector<int> cpus_near(const std::string& pci_bus_id);
// Those of `allowed` that are in `nearby`; all of `allowed` where none is.
std::vector<int> preferred_cpus(std::span<const int> allowed, std::span<const int> nearby);
// Keeps the calling thread, and those that it starts from now on, on these CPUs; false where that
// is not allowed.
bool run_on(std::span<const int> cpus);

// "0-3,8" for CPUs 0, 1, 2, 3 and 8.
std::string cpu_list(std::span<const int> cpus);

// Threads per rank that were asked for, and by what.
struct ThreadRequest {
  int threads = 1;
  std::string origin;  // "--threads", "OMP_NUM_THREADS"
};
// --threads, else the first number in the text of OMP_NUM_THREADS (null: not set), else nothing;
// also where that is no number from 1 to 4096.
std::optional<ThreadRequest> requested_threads(std::optional<std::int64_t> flag,
                                               const char* omp_num_threads);

struct ThreadPlan {
  int threads = 1;
  // Threads that fewer CPUs in the affinity mask than cores per rank cost; 0 when the number was
  // asked for.
  int lost_to_binding = 0;
  std::string origin;  // of the request; empty without one
};
// What was requested, else max(1, min(cores / ranks on the node, CPUs in the affinity mask)).
ThreadPlan plan_threads(const std::optional<ThreadRequest>& request, int cores, int ranks_on_node,
                        int cpus_in_mask);

}  // namespace tasuki::program

// Processors of this node, and how many threads a rank computes with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tasuki::apps {

struct Processors {
  int cores = 1;  // cores that the job may use on this node, a container's CPU quota included
  std::vector<int> cpus;  // logical CPUs that this process may run on, ascending
};
Processors find_processors();

// "0-3,8" for CPUs 0, 1, 2, 3 and 8.
std::string cpu_list(std::span<const int> cpus);

struct ThreadPlan {
  int threads = 1;
  // Threads that fewer CPUs in the affinity mask than cores per rank cost; 0 when --threads
  // decided.
  int lost_to_binding = 0;
};
// `requested` threads, else max(1, min(cores / ranks on the node, CPUs in the affinity mask)).
ThreadPlan plan_threads(std::optional<std::int64_t> requested, int cores, int ranks_on_node,
                        int cpus_in_mask);

}  // namespace tasuki::apps

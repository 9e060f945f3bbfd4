#include "common/processors.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>

namespace tasuki::apps {
namespace {

int count_cores() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return 0;
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> owner(topology,
                                                                          hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return 0;
  return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
}

// CPUs' worth of time that the control group grants (version 2: "quota period", or "max period");
// nothing when it sets no limit.
std::optional<int> cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

}  // namespace

Processors find_processors() {
  Processors found;
  // As many CPUs as the kernel may have, not as cpu_set_t has room for.
  const int most = static_cast<int>(std::max(1024L, sysconf(_SC_NPROCESSORS_CONF)));
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
      CPU_ALLOC(static_cast<std::size_t>(most)), [](cpu_set_t* set) { CPU_FREE(set); });
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
  if (mask && sched_getaffinity(0, bytes, mask.get()) == 0)
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) found.cpus.push_back(cpu);

  found.cores = count_cores();
  if (found.cores < 1) found.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto quota = cpu_quota()) found.cores = std::min(found.cores, *quota);
  found.cores = std::max(1, found.cores);
  return found;
}

std::string cpu_list(std::span<const int> cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

ThreadPlan plan_threads(std::optional<std::int64_t> requested, int cores, int ranks_on_node,
                        int cpus_in_mask) {
  if (requested) return {static_cast<int>(*requested), 0};
  const int fair = std::max(1, cores / std::max(1, ranks_on_node));
  const int threads = std::max(1, std::min(fair, cpus_in_mask));
  return {threads, fair - threads};
}

}  // namespace tasuki::apps

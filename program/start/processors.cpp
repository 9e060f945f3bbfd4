#include "program/start/processors.hpp"

#include <fmt/core.h>
#include <hwloc.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "core/processor.hpp"
#include "program/flags/flag_groups.hpp"

namespace tasuki::program {
namespace {

using HardwareTopology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

// nullptr if hwloc cannot read the machine.
HardwareTopology load_topology(bool with_devices) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {nullptr, hwloc_topology_destroy};
  HardwareTopology topology(made, hwloc_topology_destroy);
  if (with_devices) hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0) topology.reset();
  return topology;
}

int count_cores() {
  const HardwareTopology topology = load_topology(false);
  return topology ? hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) : 0;
}

// The number of CPUs that the kernel may have; cpu_set_t may have room for fewer.
int most_cpus() {
  return static_cast<int>(std::max(1024L, sysconf(_SC_NPROCESSORS_CONF)));
}
using CpuMask = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;
CpuMask make_mask() {
  return {CPU_ALLOC(static_cast<std::size_t>(most_cpus())), [](cpu_set_t* set) { CPU_FREE(set); }};
}

// The CPUs that a group's quota amounts to: "quota period" or "max period" in one file (version 2),
// a number, -1 for no limit, in each of two (version 1).
std::optional<double> quota_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 2) {
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::optional<double> cpu_quota(const ControlGroupFiles& files) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", files))
    if (const auto quota = quota_of(group)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
}

int memory_nodes() {
  const HardwareTopology topology = load_topology(false);
  return topology ? std::max(1, hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE)) : 1;
}

std::string system_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

Processors find_processors() {
  Processors found;
  const int most = most_cpus();
  const CpuMask mask = make_mask();
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
  if (mask && sched_getaffinity(0, bytes, mask.get()) == 0)
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) found.cpus.push_back(cpu);

  found.cores = count_cores();
  if (found.cores < 1) found.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto quota = cpu_quota())
    found.cores = std::min(found.cores, static_cast<int>(std::ceil(*quota)));
  found.cores = std::max(1, found.cores);
  return found;
}

std::string describe_machine() {
  utsname system{};
  uname(&system);
  return fmt::format("{} cores of {}, {} {}", find_processors().cores, processor_name(),
                     system.sysname, system.release);
}

std::vector<int> cpus_near(const std::string& pci_bus_id) {
  const HardwareTopology topology = load_topology(true);
  if (!topology) return {};
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology.get(), pci_bus_id.c_str());
  if (device == nullptr) return {};
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology.get(), device);
  if (near == nullptr || near->cpuset == nullptr) return {};
  const hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology.get());
  if (hwloc_bitmap_isequal(near->cpuset, all)) return {};
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(near->cpuset); cpu >= 0;
       cpu = hwloc_bitmap_next(near->cpuset, cpu))
    cpus.push_back(cpu);
  return cpus;
}

std::optional<int> socket_of(std::span<const int> cpus) {
  const HardwareTopology topology = load_topology(false);
  if (!topology || cpus.empty()) return std::nullopt;
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(hwloc_bitmap_alloc(),
                                                                      hwloc_bitmap_free);
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  hwloc_obj_t object = hwloc_get_obj_covering_cpuset(topology.get(), set.get());
  while (object != nullptr && object->type != HWLOC_OBJ_PACKAGE) object = object->parent;
  if (object == nullptr) return std::nullopt;
  return static_cast<int>(object->logical_index);
}

std::vector<int> preferred_cpus(std::span<const int> allowed, std::span<const int> nearby) {
  std::vector<int> preferred;
  std::set_intersection(allowed.begin(), allowed.end(), nearby.begin(), nearby.end(),
                        std::back_inserter(preferred));
  if (preferred.empty()) preferred.assign(allowed.begin(), allowed.end());
  return preferred;
}

bool run_on(std::span<const int> cpus) {
  const CpuMask mask = make_mask();
  if (!mask) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most_cpus()));
  CPU_ZERO_S(bytes, mask.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, mask.get());
  return sched_setaffinity(0, bytes, mask.get()) == 0;
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

std::optional<ThreadRequest> requested_threads(std::optional<std::int64_t> flag,
                                               const char* omp_num_threads) {
  if (flag) return ThreadRequest{static_cast<int>(*flag), "--threads"};
  if (omp_num_threads == nullptr) return std::nullopt;
  // The variable has a number for each level of nesting.
  const std::string_view text = omp_num_threads;
  try {
    const std::int64_t first = parse_integer(text.substr(0, text.find(',')), thread_numbers);
    return ThreadRequest{static_cast<int>(first), "OMP_NUM_THREADS"};
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // the OpenMP library warns of it
  }
}

ThreadPlan plan_threads(const std::optional<ThreadRequest>& request, int cores, int ranks_on_node,
                        int cpus_in_mask) {
  if (request) return {request->threads, 0, request->origin};
  const int fair = std::max(1, cores / std::max(1, ranks_on_node));
  const int threads = std::max(1, std::min(fair, cpus_in_mask));
  return {threads, fair - threads, ""};
}

}  // namespace tasuki::program

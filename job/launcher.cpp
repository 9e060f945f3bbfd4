#include "job/launcher.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"
#include "core/process_state.hpp"

namespace tasuki {
namespace {

struct Ancestor {
  pid_t process = 0;
  std::string name;
};

// The nearest ancestor of this process whose name `is` accepts. A few scripts may be in between.
template <class Is>
std::optional<Ancestor> nearest_ancestor(const Is& is) {
  constexpr int most_scripts = 8;
  pid_t process = getppid();
  for (int step = 0; step < most_scripts && process > 1; ++step) {
    const auto state = process_state(process);
    if (!state) return std::nullopt;
    if (is(state->name.data())) return Ancestor{process, state->name.data()};
    process = state->parent;
  }
  return std::nullopt;
}

// The kernel cuts names after 15 characters; older versions have pmi_proxy.
bool is_hydra_proxy(std::string_view process) {
  return process.starts_with("hydra_") || process == "pmi_proxy";
}

// mpiexec, or mpirun, which may be a script that starts it.
bool is_hydra(std::string_view process) {
  return is_hydra_proxy(process) || process.starts_with("mpiexec") || process.starts_with("mpirun");
}

// The process of Hydra on this host from which its others there descend.
pid_t top_of_hydra(pid_t process) {
  for (;;) {
    const auto state = process_state(process);
    const auto parent = state ? process_state(state->parent) : std::nullopt;
    if (!parent || !is_hydra(parent->name.data())) return process;
    process = state->parent;
  }
}

struct LauncherKind {
  bool (*is)(std::string_view process);
  const char* size;
  const char* rank;
  const char* rank_on_host;
};

constexpr std::array<LauncherKind, 3> kinds = {
    {{is_launcher_name, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_LOCAL_RANK"},
     {is_hydra_proxy, "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
     {[](std::string_view process) { return process == "slurmstepd"; }, "SLURM_STEP_NUM_TASKS",
      "SLURM_PROCID", "SLURM_LOCALID"}}};

// The value of the first of these variables that is set: inside a Slurm job, the launcher's own
// comes before Slurm's.
std::optional<std::string_view> first_value(const char* LauncherKind::*variable) {
  for (const LauncherKind& kind : kinds)
    if (const char* const value = std::getenv(kind.*variable)) return value;
  return std::nullopt;
}

std::optional<int> number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<LaunchedRanks> account_of(const LauncherKind& kind, const std::string& process) {
  const bool is_typed = std::getenv("SLURM_PTY_PORT") != nullptr;
  const auto size = number_in(kind.size);
  if (!size || (is_typed && kind.size == kinds.back().size)) return std::nullopt;
  return LaunchedRanks{process, kind.size, *size, number_in(kind.rank).value_or(0)};
}

}  // namespace

bool is_daemon_name(std::string_view name) {
  return name == "orted" || name == "prted";
}

bool is_launcher_name(std::string_view name) {
  if (is_daemon_name(name)) return true;
  // Includes Debian's mpirun.openmpi and the like; mpiexec.hydra belongs to other MPIs.
  for (const std::string_view suffix :
       {".openmpi", ".openmp"})  // the kernel cuts names after 15 characters
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  constexpr std::array<std::string_view, 4> names = {"mpirun", "mpiexec", "orterun", "prterun"};
  return std::ranges::find(names, name) != names.end();
}

bool is_launcher_of_one_job(std::string_view job) {
  if (job.empty()) return false;
  if (job.find_first_not_of("0123456789") == std::string_view::npos) return true;
  const auto end = job.find('-');
  return end != std::string_view::npos && is_launcher_name(job.substr(0, end)) &&
         !is_daemon_name(job.substr(0, end));
}

bool was_started_by_hydra() {
  return std::getenv("PMI_RANK") != nullptr && nearest_ancestor(is_hydra_proxy);
}

pid_t launcher_process() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    const auto launcher = nearest_ancestor(is_launcher_name);
    return launcher ? launcher->process : 0;
  }
  if (std::getenv("PMI_RANK") == nullptr) return 0;
  const auto proxy = nearest_ancestor(is_hydra_proxy);
  return proxy ? top_of_hydra(proxy->process) : 0;
}

std::string_view title_of_launcher(std::string_view process) {
  const bool is_elsewhere = process.empty() || is_daemon_name(process) || is_hydra_proxy(process);
  if (was_started_by_hydra()) return is_elsewhere ? "mpiexec's proxy" : "mpiexec";
  return is_elsewhere ? "mpirun's daemon" : "mpirun";
}

bool is_first_rank() {
  return first_value(&LauncherKind::rank).value_or("0") == "0";
}

bool is_first_rank_of_host() {
  return first_value(&LauncherKind::rank_on_host).value_or("0") == "0";
}

std::optional<LaunchedRanks> launched_ranks() {
  const auto kind_of = [](std::string_view process) {
    return std::ranges::find_if(kinds, [&](const LauncherKind& kind) { return kind.is(process); });
  };
  const auto launcher =
      nearest_ancestor([&](std::string_view process) { return kind_of(process) != kinds.end(); });
  if (!launcher) return std::nullopt;
  return account_of(*kind_of(launcher->name), launcher->name);
}

bool is_of_another_mpi(const std::optional<LaunchedRanks>& launched, int world_size) {
  return world_size == 1 && launched && launched->size > 1;
}

void refuse_launcher(const LaunchedRanks& launched) {
  fail_everywhere(
      ErrorKind::config,
      "the launcher ({}) started {} processes ({}), but for this program's MPI ({}) each of them "
      "is a job of its own: the launcher belongs to another MPI, or was not told of this one; use "
      "the mpirun of this MPI (with srun: --mpi=pmix or pmi2). To start single processes on "
      "purpose, unset {}",
      launched.launcher, launched.size, launched.variable, mpi_library_name(), launched.variable);
}

}  // namespace tasuki

#include "job/launched_ranks.hpp"

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"
#include "core/process_state.hpp"
#include "job/launcher_process.hpp"

namespace tasuki {
namespace {

struct LauncherKind {
  bool (*is)(std::string_view process);
  const char* size;
  const char* rank;
};

constexpr std::array<LauncherKind, 3> kinds = {
    {{is_launcher_name, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
     // The kernel cuts names after 15 characters; older versions have pmi_proxy.
     {[](std::string_view process) {
        return process.starts_with("hydra_") || process == "pmi_proxy";
      },
      "PMI_SIZE", "PMI_RANK"},
     {[](std::string_view process) { return process == "slurmstepd"; }, "SLURM_STEP_NUM_TASKS",
      "SLURM_PROCID"}}};

std::optional<int> number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<LaunchedRanks> account_of(const LauncherKind& kind, const char* process) {
  const bool is_typed = std::getenv("SLURM_PTY_PORT") != nullptr;
  const auto size = number_in(kind.size);
  if (!size || (is_typed && kind.size == kinds.back().size)) return std::nullopt;
  return LaunchedRanks{process, kind.size, *size, number_in(kind.rank).value_or(0)};
}

// "Open MPI v4.1.4", without what follows in one long line.
std::string name_of_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  TASUKI_MPI(MPI_Get_library_version, text.data(), &length);
  const std::string name(text.data(), static_cast<std::size_t>(length));
  return name.substr(0, name.find_first_of(",\n"));
}

}  // namespace

std::optional<LaunchedRanks> launched_ranks() {
  constexpr int most_scripts = 8;
  pid_t process = getppid();
  for (int step = 0; step < most_scripts && process > 1; ++step) {
    const auto state = process_state(process);
    if (!state) return std::nullopt;
    for (const LauncherKind& kind : kinds)
      if (kind.is(state->name.data())) return account_of(kind, state->name.data());
    process = state->parent;
  }
  return std::nullopt;
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
      launched.launcher, launched.size, launched.variable, name_of_library(), launched.variable);
}

}  // namespace tasuki

#include "job/launcher_process.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/process_state.hpp"

namespace tasuki {

bool is_daemon_name(std::string_view name) {
  return name == "orted" || name == "prted";
}

bool is_launcher_name(std::string_view name) {
  if (is_daemon_name(name)) return true;
  // Includes Debian's mpirun.openmpi and the like; "mpiexec.hydra" belongs to another MPI.
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

pid_t launcher_process() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return 0;
  constexpr int most_scripts = 8;
  pid_t process = getppid();
  for (int step = 0; step < most_scripts && process > 1; ++step) {
    const auto state = process_state(process);
    if (!state) return 0;
    if (is_launcher_name(state->name.data())) return process;
    process = state->parent;
  }
  return 0;
}

}  // namespace tasuki

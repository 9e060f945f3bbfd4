// Finds the launcher, its settings, and everything else on which a start depends.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"
#include "program/start/processors.hpp"
#include "tools/supervisor/launch.hpp"
#include "tools/supervisor/program.hpp"

namespace tasuki::supervisor {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const int number = std::atoi(text);
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<SlurmJob> slurm_job() {
  if (std::getenv("SLURM_JOB_ID") == nullptr) return std::nullopt;
  return SlurmJob{number_in("SLURM_JOB_NUM_NODES").value_or(1), number_in("SLURM_NTASKS"),
                  number_in("SLURM_NTASKS_PER_NODE"), number_in("SLURM_CPUS_PER_TASK"),
                  std::getenv("SLURMD_NODENAME") != nullptr};
}

// The MPI library that this program has loaded.
fs::path mpi_library() {
  fs::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const std::string_view name = info->dlpi_name;
        if (name.find("/libmpi.so") == std::string_view::npos &&
            name.find("/libmpich.so") == std::string_view::npos)  // Debian's MPICH
          return 0;
        *static_cast<fs::path*>(result) = name;
        return 1;
      },
      &found);
  return found;
}

// The full path of a program that came with the library; started by it, a launcher also finds its
// daemons on other hosts. Empty if there is none.
std::string beside_library(const char* name) {
  const fs::path library = mpi_library();
  std::error_code not_there;
  // Debian's /lib is a link.
  for (const fs::path& path : {library, fs::canonical(library, not_there)})
    for (fs::path folder = path.parent_path(); folder.has_relative_path();
         folder = folder.parent_path())
      if (const fs::path program = folder / "bin" / name; access(program.c_str(), X_OK) == 0)
        return program;
  return "";
}

// By the MPI library: programs and launcher must be of one MPI.
MpiRuntime find_runtime(const std::string& library) {
  const auto runtime = runtime_of(library);
  if (!runtime)
    fail(ErrorKind::unavailable,
         "this build's MPI is {}, whose launcher tasuki-run cannot use; start programs with it, "
         "without tasuki-run: mpiexec -n N PROGRAM",
         library);
  return *runtime;
}

std::string find_srun() {
  if (find_in_path("srun").empty())
    fail(ErrorKind::unavailable, "srun was not found in PATH; --launcher srun needs Slurm");
  return "srun";
}

std::string find_mpiexec(MpiRuntime runtime) {
  if (const char* const chosen = std::getenv("TASUKI_MPIEXEC"); chosen != nullptr && *chosen != 0) {
    if (find_in_path(chosen).empty() && access(chosen, X_OK) != 0)
      fail(ErrorKind::unavailable, "TASUKI_MPIEXEC={}: there is no such program", chosen);
    return chosen;
  }
  const bool is_hydras = is_hydra(runtime);
  const char* const name = is_hydras ? "mpiexec.hydra" : "mpirun";
  const std::string in_path = find_in_path(name).empty() ? "" : name;
  std::string found = beside_library(name);
  if (found.empty() || (!is_hydras && !in_path.empty())) found = in_path;
  if (found.empty())
    fail(ErrorKind::unavailable,
         "{} was not found in PATH, nor beside the MPI library {}; install {}", name,
         mpi_library().string(), is_hydras ? "it" : "openmpi-bin");
  return found;
}

// In the build tree or the installed one; empty if it does not exist.
std::string find_data(const char* name) {
  std::error_code not_there;
  const fs::path program = fs::read_symlink("/proc/self/exe", not_there);
  const fs::path file =
      (program.parent_path() / TASUKI_DATA_FROM_PROGRAMS / name).lexically_normal();
  return fs::exists(file, not_there) ? file.string() : "";
}

bool has_default_hosts(MpiRuntime runtime, const std::string& mpirun) {
  if (McaParameters({}, {}, runtime).find({"orte_default_hostfile"})) return true;
  std::ifstream file(find_default_hostfile(runtime, mpirun));
  for (std::string line; std::getline(file, line);)
    if (const auto begin = line.find_first_not_of(" \t"); begin != line.npos && line[begin] != '#')
      return true;
  return false;
}

// PBS, LSF or Grid Engine, whose allocations mpirun knows.
bool has_other_scheduler() {
  return std::ranges::any_of(std::to_array({"PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE"}),
                             [](const char* variable) { return std::getenv(variable) != nullptr; });
}

bool is_for_ranks(std::string_view variable) {
  constexpr std::array<std::string_view, 4> prefixes = {"TASUKI_", "OMP_", "NCCL_",
                                                        "CUDA_VISIBLE_DEVICES="};
  for (const std::string_view prefix : prefixes)
    if (variable.starts_with(prefix)) return true;
  return false;
}

std::vector<std::string> exported_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (is_for_ranks(*variable)) {
      const std::string_view text = *variable;
      names.emplace_back(text.substr(0, text.find('=')));
    }
  return names;
}

}  // namespace

Surroundings look_around(LauncherKind launcher) {
  Surroundings around;
  const std::string library = mpi_library_name();
  if (launcher == LauncherKind::mpirun) {
    around.runtime = find_runtime(library);
    around.mpirun = find_mpiexec(around.runtime);
  } else {
    around.mpirun = find_srun();
    const auto runtime = runtime_of(library);
    around.srun_mpi = !runtime ? "" : is_hydra(*runtime) ? "pmi2" : "pmix";
  }
  around.cores = program::find_processors().cores;
  around.is_root = geteuid() == 0;
  around.exported = exported_variables();
  around.tune = find_data("mca-params.conf");
  if (launcher == LauncherKind::mpirun && !is_hydra(around.runtime)) {
    around.mca_files = find_mca_files(around.runtime, around.mpirun);
    around.may_have_other_hosts =
        has_default_hosts(around.runtime, around.mpirun) || has_other_scheduler();
  }
  std::error_code not_there;
  const fs::space_info space = fs::space("/dev/shm", not_there);
  if (!not_there) around.shared_memory = space.available;
  // Called by its full path, mpirun finds orted on other hosts; start_orted looks only in PATH.
  if (around.mpirun == "mpirun") around.start_orted = find_data("start_orted");
  around.slurm = slurm_job();
  return around;
}

}  // namespace tasuki::supervisor

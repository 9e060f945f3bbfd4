#include "tools/supervisor/mpi_runtime.hpp"

#include <cstdlib>
#include <string_view>

namespace tasuki::supervisor {

std::optional<MpiRuntime> runtime_of(const std::string& library) {
  constexpr std::string_view open_mpi = "Open MPI v";
  if (library.starts_with(open_mpi))
    return std::atoi(library.c_str() + open_mpi.size()) < 5 ? MpiRuntime::orte : MpiRuntime::prrte;
  if (library.starts_with("MPICH Version")) return MpiRuntime::hydra;
  if (library.starts_with("Intel(R) MPI")) return MpiRuntime::intel_hydra;
  return std::nullopt;
}

bool is_hydra(MpiRuntime runtime) {
  return runtime == MpiRuntime::hydra || runtime == MpiRuntime::intel_hydra;
}

}  // namespace tasuki::supervisor

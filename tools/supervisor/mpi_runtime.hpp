// MpiRuntime: what starts the ranks of this build's MPI.
#pragma once

#include <optional>
#include <string>

namespace tasuki::supervisor {

// ORTE in Open MPI 4; PRRTE in Open MPI 5, which has other names for some parameters, reads its own
// from other places, and takes no file like mca-params.conf; Hydra in MPICH, and in Intel MPI with
// settings of its own (hydra.hpp).
enum class MpiRuntime { orte, prrte, hydra, intel_hydra };

// By the name of the MPI library, "Open MPI v4.1.4"; nothing: another MPI.
std::optional<MpiRuntime> runtime_of(const std::string& library);

bool is_hydra(MpiRuntime runtime);

}  // namespace tasuki::supervisor

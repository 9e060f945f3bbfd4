#include "program/flags/options_builtin.hpp"

#include <fmt/core.h>

#include "communicator/mpi/mpi.hpp"
#include "core/version.hpp"
#include "tensor/backend.hpp"

namespace tasuki::program {

std::string describe_versions() {
  return fmt::format("Tasuki {}, {}, {}", tasuki::version(), backend(Device::cpu()).describe(),
                     mpi_library_name());
}

std::string version_text(const std::string& program) {
  return fmt::format("{} (Tasuki) {}\ncpu: {}\nMPI: {}\n", program, tasuki::version(),
                     backend(Device::cpu()).describe(), mpi_library_name());
}

}  // namespace tasuki::program

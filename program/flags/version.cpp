#include "program/flags/options_builtin.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include "core/error.hpp"
#include "core/version.hpp"
#include "tensor/backend.hpp"

namespace tasuki::program {

namespace {

std::string mpi_version() {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(library, &length) != MPI_SUCCESS)
    fail(ErrorKind::unavailable, "MPI does not report its version");
  const std::string mpi(library, static_cast<std::size_t>(length));
  return mpi.substr(0, mpi.find_first_of(",\n"));
}

}  // namespace

std::string describe_versions() {
  return fmt::format("Tasuki {}, {}, {}", tasuki::version(), backend(Device::cpu()).describe(),
                     mpi_version());
}

std::string version_text(const std::string& program) {
  return fmt::format("{} (Tasuki) {}\ncpu: {}\nMPI: {}\n", program, tasuki::version(),
                     backend(Device::cpu()).describe(), mpi_version());
}

}  // namespace tasuki::program

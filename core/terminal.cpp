#include "tasuki/core/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tasuki {

bool is_terminal(std::FILE* stream) {
  const int descriptor = fileno(stream);
  if (isatty(descriptor) == 0) return false;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return true;
  // Open MPI: the parent is mpirun, or on other hosts its daemon, whose output is no terminal.
  const std::string parent = fmt::format("/proc/{}/fd/{}", getppid(), descriptor);
  const int opened = open(parent.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return false;
  const bool watched = isatty(opened) != 0;
  close(opened);
  return watched;
}

}  // namespace tasuki

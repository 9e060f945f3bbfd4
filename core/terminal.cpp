#include "tasuki/core/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tasuki {
namespace {

std::atomic<bool> has_bar = false;

// A new descriptor of the terminal; -1 if there is none.
int open_terminal(std::FILE* stream) {
  const int descriptor = fileno(stream);
  if (isatty(descriptor) == 0) return -1;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  // Open MPI: the parent is mpirun, or on other hosts its daemon, whose output is not a terminal.
  const std::string parent = fmt::format("/proc/{}/fd/{}", getppid(), descriptor);
  const int opened = open(parent.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (opened >= 0 && isatty(opened) != 0) return opened;
  if (opened >= 0) close(opened);
  return -1;
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  const int terminal = open_terminal(stream);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

std::size_t line_width(std::FILE* stream) {
  const int terminal = open_terminal(stream);
  if (terminal < 0) return unlimited_width;
  winsize size{};
  std::size_t columns = ioctl(terminal, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  close(terminal);
  if (const char* const named = std::getenv("COLUMNS"); columns == 0 && named != nullptr)
    columns = std::strtoul(named, nullptr, 10);
  if (columns == 0) columns = 80;
  return std::max<std::size_t>(columns, 2) - 1;
}

void set_bar_shown(bool is_shown) {
  has_bar = is_shown;
}

void end_bar() noexcept {
  if (!has_bar.exchange(false)) return;
  // From the beginning of the line, because the terminal may have echoed "^C".
  constexpr std::string_view erase = "\r\033[J";
  if (write(STDOUT_FILENO, erase.data(), erase.size()) < 0) return;
}

}  // namespace tasuki

#include "core/terminal.hpp"

#include <fcntl.h>
#include <fmt/core.h>
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
  // With Open MPI the parent is mpirun or, on other hosts, its daemon, whose output is not a
  // terminal.
  const std::string parent = fmt::format("/proc/{}/fd/{}", getppid(), descriptor);
  const int opened = open(parent.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (opened >= 0 && isatty(opened) != 0) return opened;
  if (opened >= 0) close(opened);
  return -1;
}

// The length in characters: counts the first byte of each in UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// A line without its end.
void append_wrapped(std::string_view line, std::size_t width, std::string& wrapped) {
  constexpr std::string_view indent = "  ";
  std::size_t used = 0;
  while (!line.empty()) {
    // Blanks and the following word, which may be missing at the end.
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    std::string_view blanks = line.substr(0, begin);
    const bool has_room = used + begin + width_of(word) <= width;
    if (word.empty() && !has_room) return;
    if (used > 0 && !has_room) {
      wrapped += '\n';
      used = 0;
      blanks = indent;
    }
    wrapped.append(blanks).append(word);
    used += blanks.size() + width_of(word);
    line.remove_prefix(end);
  }
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  const int terminal = open_terminal(stream);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

bool moves_cursor(std::FILE* stream) {
  const char* const kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb") return false;
  return is_terminal(stream);
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

std::string wrap_lines(std::string_view text, std::size_t width) {
  if (width == unlimited_width) return std::string(text);
  std::string wrapped;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(text.substr(0, end), width, wrapped);
    if (end < text.size()) wrapped += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
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

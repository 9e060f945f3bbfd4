#include "tools/supervisor/launcher_stream.hpp"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace tasuki::supervisor {
namespace {

constexpr std::size_t enough = 65536;  // at a time, so that signals need not wait

void check(bool is_fine, const char* what) {
  if (!is_fine) fail(ErrorKind::io, "{}: {}", what, std::strerror(errno));
}

void set_flags(int file) {
  check(fcntl(file, F_SETFD, FD_CLOEXEC) == 0, "fcntl");
}

}  // namespace

LauncherStream::LauncherStream(int file) : file_(file) {
  // There may be no pseudo terminals, as in a container without /dev/pts.
  is_terminal_ = isatty(file) != 0 && openpty(&reader_, &writer_, nullptr, nullptr, nullptr) == 0;
  if (is_terminal_) {
    // The real terminal converts line ends.
    termios mode{};
    check(tcgetattr(writer_, &mode) == 0, "tcgetattr");
    cfmakeraw(&mode);
    check(tcsetattr(writer_, TCSANOW, &mode) == 0, "tcsetattr");
    follow_size();
  } else {
    std::array<int, 2> ends{};
    check(pipe(ends.data()) == 0, "pipe");
    reader_ = ends[0];
    writer_ = ends[1];
  }
  set_flags(reader_);
  set_flags(writer_);
  check(fcntl(reader_, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

LauncherStream::~LauncherStream() {
  close(reader_);
  close_writer();
}

void LauncherStream::close_writer() {
  if (writer_ >= 0) close(writer_);
  writer_ = -1;
}

void LauncherStream::follow_size() const {
  winsize size{};
  if (is_terminal_ && ioctl(file_, TIOCGWINSZ, &size) == 0) ioctl(reader_, TIOCSWINSZ, &size);
}

bool LauncherStream::read(std::string& bytes) const {
  std::array<char, 4096> buffer;
  while (bytes.size() < enough) {
    const ssize_t n = ::read(reader_, buffer.data(), buffer.size());
    if (n > 0) bytes.append(buffer.data(), static_cast<std::size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    return n < 0 && errno == EAGAIN;  // a terminal's other end is closed: EIO
  }
  return true;
}

}  // namespace tasuki::supervisor

#include "tools/supervisor/output_stream.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace tasuki::supervisor {

OutputStream::OutputStream(int file) : file_(file) {
  struct stat kind {};
  const bool is_known = fstat(file, &kind) == 0;
  is_socket_ = is_known && S_ISSOCK(kind.st_mode);
  // Opened anew, because O_NONBLOCK on `file` would affect all processes that share it.
  if (is_known && (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)))
    own_ = open(fmt::format("/proc/self/fd/{}", file).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

OutputStream::~OutputStream() {
  if (own_ >= 0) close(own_);
}

std::ptrdiff_t OutputStream::write_some() const {
  if (is_socket_) return send(file_, kept_.data(), kept_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (own_ >= 0) return ::write(own_, kept_.data(), kept_.size());
  // A terminal that other processes share stays blocking. If it is writable, it accepts this much.
  if (!has_room(file_)) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(file_, kept_.data(), std::min<std::size_t>(kept_.size(), PIPE_BUF));
}

void OutputStream::write(std::string_view text) {
  kept_ += text;
  while (!kept_.empty()) {
    const std::ptrdiff_t n = write_some();
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    const std::size_t written =
        n > 0 ? static_cast<std::size_t>(n) : kept_.size();  // the reader is gone
    kept_.erase(0, written);
  }
}

void OutputStream::drain(const Signals& signals) {
  for (flush(); awaited() >= 0; flush()) {
    std::array<pollfd, 2> arrivals = {pollfd{awaited(), POLLOUT, 0},
                                      pollfd{signals.descriptor(), POLLIN, 0}};
    poll(arrivals.data(), arrivals.size(), -1);
    if (signals.wait_for_stop({})) return;
  }
}

OutputStream& error_output() {
  static OutputStream stream(STDERR_FILENO);
  return stream;
}

OutputStream& standard_output() {
  static OutputStream stream(STDOUT_FILENO);
  return stream;
}

int pipe_or_socket(int file) {
  struct stat kind {};
  const bool is_known = fstat(file, &kind) == 0;
  return is_known && (S_ISFIFO(kind.st_mode) || S_ISSOCK(kind.st_mode)) ? file : -1;
}

bool has_room(int file) {
  pollfd room{file, POLLOUT, 0};
  return poll(&room, 1, 0) != 0;
}

bool has_lost_reader(int file) {
  pollfd other_end{pipe_or_socket(file), 0, 0};
  return poll(&other_end, 1, 0) == 1 && (other_end.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace tasuki::supervisor

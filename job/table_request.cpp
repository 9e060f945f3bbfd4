#include "job/table_request.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>

#include "core/job_process.hpp"

namespace tasuki {
namespace {

// Never closed, because a handler may be about to write to it.
int wake = -1;

void on_signal(int /*signal*/) {
  const int saved_errno = errno;
  if (is_job_process()) eventfd_write(wake, 1);
  errno = saved_errno;
}

}  // namespace

void listen_for_table_requests() {
  struct sigaction present {};
  if (sigaction(SIGUSR2, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  if (wake < 0) wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
}

int table_request_wake() {
  return wake;
}

bool take_table_requests() {
  eventfd_t requests = 0;
  return wake >= 0 && eventfd_read(wake, &requests) == 0;
}

}  // namespace tasuki

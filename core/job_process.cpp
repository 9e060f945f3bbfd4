#include "tasuki/core/job_process.hpp"

#include <unistd.h>

#include <atomic>

namespace tasuki {
namespace {

std::atomic<pid_t> job_process = getpid();
static_assert(std::atomic<pid_t>::is_always_lock_free);

}  // namespace

void become_job_process() noexcept {
  job_process = getpid();
}

bool is_job_process() noexcept {
  return getpid() == job_process;
}

}  // namespace tasuki

#include "core/job_process.hpp"

#include <unistd.h>

#include <atomic>

namespace tasuki {
namespace {

std::atomic<pid_t> job_process = 0;  // none
static_assert(std::atomic<pid_t>::is_always_lock_free);

}  // namespace

void begin_job_process() noexcept {
  job_process = getpid();
}

void end_job_process() noexcept {
  job_process = 0;
}

bool is_job_process() noexcept {
  const pid_t process = job_process;
  return process == 0 || process == getpid();
}

}  // namespace tasuki

#include "core/job_process.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tasuki {
namespace {

std::atomic<pid_t> job_process = 0;  // none
static_assert(std::atomic<pid_t>::is_always_lock_free);

std::atomic<bool> do_errors_end_job = false;

const auto loaded_at = std::chrono::steady_clock::now();

// The age of the job when this process was started; 0 if no variable holds a number.
double age_in_environment() {
  const char* const variable = std::getenv(job_age_variable);
  if (variable == nullptr) return 0;
  const std::string_view text = variable;
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && std::isfinite(seconds) ? std::max(seconds, 0.0) : 0;
}

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

void set_errors_end_job(bool do_end) noexcept {
  do_errors_end_job = do_end;
}

bool errors_end_job() noexcept {
  return do_errors_end_job;
}

double process_age() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - loaded_at).count();
}

double job_age() {
  return age_in_environment() + process_age();
}

}  // namespace tasuki

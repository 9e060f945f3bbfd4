#include "core/job_age.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tasuki {
namespace {

const auto loaded_at = std::chrono::steady_clock::now();

// How old the job was when this process was started; 0 if no variable says so in a number.
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

double process_age() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - loaded_at).count();
}

double job_age() {
  return age_in_environment() + process_age();
}

}  // namespace tasuki

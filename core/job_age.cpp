#include "tasuki/core/job_age.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace tasuki {
namespace {

const auto loaded_at = std::chrono::steady_clock::now();

// Nothing if it is not a number.
std::optional<double> start_in_environment() {
  const char* const variable = std::getenv(job_start_variable);
  if (variable == nullptr) return std::nullopt;
  const std::string_view text = variable;
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return seconds;
}

}  // namespace

double job_age() {
  using Seconds = std::chrono::duration<double>;
  const double own = Seconds(std::chrono::steady_clock::now() - loaded_at).count();
  const double now = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::max(own, now - start_in_environment().value_or(now));
}

}  // namespace tasuki

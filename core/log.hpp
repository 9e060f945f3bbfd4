// Messages on standard error, through spdlog. Tables and results that a program is asked for go to
// standard output instead, from rank 0.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tasuki {

enum class LogLevel { verbose, info, warning };

// Sets which messages appear: `threshold` and above, each marked with the rank unless `rank` is 0
// or negative (unknown). Ranks other than 0 print only warnings and errors.
void configure_log(int rank, LogLevel threshold);

void log_message(LogLevel level, std::string_view message);

template <class... Args>
void log_verbose(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::verbose, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tasuki

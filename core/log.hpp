// Messages on standard error, through spdlog. Tables and results that a program is asked for go to
// standard output instead, from rank 0.
#pragma once

#include <fmt/core.h>

namespace tasuki {

enum class LogLevel { verbose, info, warning };

// Sets which messages appear: `threshold` and above, each marked with the rank unless `rank` is 0
// or negative (unknown). Ranks other than 0 print only warnings and errors.
void configure_log(int rank, LogLevel threshold);

void log_message(LogLevel level, fmt::string_view format, fmt::format_args args);

template <class... Args>
void log_verbose(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::verbose, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::info, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::warning, format, fmt::make_format_args(args...));
}

}  // namespace tasuki

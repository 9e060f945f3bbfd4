#include "core/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "core/printable.hpp"

namespace tasuki {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::verbose:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
  }
  return spdlog::level::warn;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("tasuki",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return *instance;
}

}  // namespace

void configure_log(int rank, LogLevel threshold) {
  const LogLevel shown = rank > 0 ? std::max(threshold, LogLevel::warning) : threshold;
  logger().set_level(to_spdlog(shown));
  logger().set_pattern(rank > 0 ? fmt::format("rank {}: %v", rank) : std::string("%v"));
}

void log_message(LogLevel level, fmt::string_view format, fmt::format_args args) {
  logger().log(to_spdlog(level), "{}{}", level == LogLevel::warning ? "warning: " : "",
               message_line(fmt::vformat(format, args)));
}

}  // namespace tasuki

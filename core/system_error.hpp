// SystemError: an error of a system call, with its errno.
#pragma once

#include <fmt/core.h>

#include <string>
#include <system_error>

#include "core/error.hpp"

namespace tasuki {

class SystemError : public Error {
 public:
  // `cause`: of the generic category, with errno as its value.
  SystemError(ErrorKind kind, const std::error_code& cause, const std::string& message,
              ErrorScope scope = ErrorScope::this_rank)
      : Error(kind, message, scope), cause_(cause) {}

  const std::error_code& cause() const noexcept { return cause_; }

 private:
  std::error_code cause_;
};

// The errno of a SystemError; 0 for other errors. Decisions use it instead of an error's text,
// which contains paths.
std::error_code cause_of(const Error& error);

// Whether the cause is that the file or folder does not exist.
bool is_absence(const std::error_code& cause);
// Whether an error says so: it is of kind missing, but not because reading is forbidden.
bool is_absence(const Error& error);

// The kind of an error that ends a program: its own kind, but io if a disk (a network disk, for
// example) failed to write, which may succeed in another try.
ErrorKind kind_at_end(const Error& error);

// The errno of the last failed call.
std::error_code last_system_error();

namespace detail {
[[noreturn]] void throw_system_error(const std::error_code& cause, ErrorKind kind,
                                     fmt::string_view format, fmt::format_args args);
}

// Throws a SystemError with a formatted message, ": " and the cause's text, "Permission denied".
template <class... Args>
[[noreturn]] void fail_because(const std::error_code& cause, ErrorKind kind,
                               fmt::format_string<Args...> format, Args&&... args) {
  detail::throw_system_error(cause, kind, format, fmt::make_format_args(args...));
}

}  // namespace tasuki

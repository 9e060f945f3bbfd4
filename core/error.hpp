// Errors: every failure is reported in one line (TableError: several) that says what was expected,
// what was found and what to do. The top level (job/run_job.hpp) adds rank and host, and ends the
// whole job with the error's exit code.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tasuki {

// The kind of an error. Its value is the job's exit code, from sysexits.h where that has a fitting
// one.
enum class ErrorKind : int {
  usage = 64,         // a flag or an argument
  data = 65,          // a data file with wrong contents
  missing = 66,       // a missing file or folder
  unavailable = 69,   // a device, library or feature that this machine or build lacks
  internal = 70,      // a defect in Tasuki or in the program using it
  cannot_write = 73,  // an output file or folder
  io = 74,            // reading, writing or communicating failed while running
  hang = 75,          // a rank waited longer than allowed
  disagreement = 76,  // the ranks of a job differ where they must not
  config = 78,        // settings that do not fit the machine or each other
  stopped = 79,       // not an error: stopped on request, and saved (core/stop_request.hpp)
};

// Which ranks meet the error. One that every rank of a communicator meets in the same place (such
// as a bad flag) is printed by one of them: by rank 0 of the job, or where that is not in the
// communicator, by the communicator's first rank.
enum class ErrorScope {
  this_rank,
  every_rank,               // printed by rank 0 of the job
  every_rank_printed_here,  // by this rank
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, ErrorScope scope = ErrorScope::this_rank)
      : std::runtime_error(message), kind_(kind), scope_(scope) {}

  ErrorKind kind() const noexcept { return kind_; }
  ErrorScope scope() const noexcept { return scope_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
  ErrorScope scope_;
};

// An error whose message is printed in several lines. In other errors' messages, line ends can only
// come from names and values, and are replaced.
class TableError : public Error {
 public:
  using Error::Error;
};

// What the templates below share: formatting and throwing are compiled once, not at every call.
namespace detail {

[[noreturn]] void throw_error(ErrorKind kind, ErrorScope scope, fmt::string_view format,
                              fmt::format_args args);

struct FailedCheck {
  const char* condition;
  const char* file;
  int line;
};
[[noreturn]] void throw_failed_check(const FailedCheck& check, fmt::string_view format,
                                     fmt::format_args args);

template <class... Args>
[[noreturn]] void check_failed(const FailedCheck& check, fmt::format_string<Args...> format,
                               Args&&... args) {
  throw_failed_check(check, format, fmt::make_format_args(args...));
}

}  // namespace detail

// Throws Error(kind) with a formatted message.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  detail::throw_error(kind, ErrorScope::this_rank, format, fmt::make_format_args(args...));
}

// fail() for an error that occurs on all ranks; rank 0 alone prints it.
template <class... Args>
[[noreturn]] void fail_everywhere(ErrorKind kind, fmt::format_string<Args...> format,
                                  Args&&... args) {
  detail::throw_error(kind, ErrorScope::every_rank, format, fmt::make_format_args(args...));
}

}  // namespace tasuki

// Checks a precondition or an invariant in every build; the message is a fmt format with arguments.
#define TASUKI_CHECK(condition, ...)                                                 \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::tasuki::detail::check_failed({#condition, __FILE__, __LINE__}, __VA_ARGS__); \
  } while (false)

namespace tasuki {

// `value` as To, for counts that go into MPI, file formats or oneDNN; throws an internal error
// naming `what` if To cannot hold it.
template <class To, class From>
To checked_cast(From value, const char* what) {
  TASUKI_CHECK(std::in_range<To>(value), "{} = {} does not fit into {} bits", what, value,
               sizeof(To) * 8);
  return static_cast<To>(value);
}

}  // namespace tasuki

#include "core/system_error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace tasuki {

std::error_code cause_of(const Error& error) {
  const auto* const of_system = dynamic_cast<const SystemError*>(&error);
  return of_system ? of_system->cause() : std::error_code();
}

bool is_absence(const std::error_code& cause) {
  return cause == std::errc::no_such_file_or_directory || cause == std::errc::not_a_directory ||
         cause == std::errc::is_a_directory || cause == std::errc::filename_too_long ||
         cause == std::errc::too_many_symbolic_link_levels;
}

bool is_absence(const Error& error) {
  return error.kind() == ErrorKind::missing && (!cause_of(error) || is_absence(cause_of(error)));
}

ErrorKind kind_at_end(const Error& error) {
  constexpr std::array of_disk = {EIO, EREMOTEIO, ESTALE, ETIMEDOUT};
  const bool may_pass = error.kind() == ErrorKind::cannot_write &&
                        std::ranges::find(of_disk, cause_of(error).value()) != of_disk.end();
  return may_pass ? ErrorKind::io : error.kind();
}

std::error_code last_system_error() {
  return {errno, std::generic_category()};
}

void detail::throw_system_error(const std::error_code& cause, ErrorKind kind,
                                fmt::string_view format, fmt::format_args args) {
  throw SystemError(kind, cause, fmt::vformat(format, args) + ": " + cause.message());
}

}  // namespace tasuki

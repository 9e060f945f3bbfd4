#include "core/error.hpp"

#include <string_view>

namespace tasuki::detail {

void throw_error(ErrorKind kind, ErrorScope scope, fmt::string_view format, fmt::format_args args) {
  throw Error(kind, fmt::vformat(format, args), scope);
}

void throw_failed_check(const FailedCheck& check, fmt::string_view format, fmt::format_args args) {
  std::string_view name(check.file);
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) {
    if (const auto folder = name.rfind('/', slash - 1); folder != std::string_view::npos)
      name.remove_prefix(folder + 1);
  }
  fail(ErrorKind::internal, "{} (expected {}, at {}:{})", fmt::vformat(format, args),
       check.condition, name, check.line);
}

}  // namespace tasuki::detail

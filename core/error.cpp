#include "core/error.hpp"

#include <string_view>

namespace tasuki::detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::string_view name(file);
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) {
    if (const auto folder = name.rfind('/', slash - 1); folder != std::string_view::npos)
      name.remove_prefix(folder + 1);
  }
  fail(ErrorKind::internal, "{} (expected {}, at {}:{})", message, condition, name, line);
}

}  // namespace tasuki::detail

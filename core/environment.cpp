#include "core/environment.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

bool is_switched_on(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string_view text = value == nullptr ? "" : value;
  if (text == "1") return true;
  if (text.empty() || text == "0") return false;
  fail_everywhere(ErrorKind::usage, "{}={}; expected 1 or 0", variable, printable(text, 80));
}

}  // namespace tasuki

#include "core/type_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace tasuki {

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return readable ? readable.get() : type.name();
}

}  // namespace tasuki

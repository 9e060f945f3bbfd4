// The name of a type as its source has it.
#pragma once

#include <string>
#include <typeinfo>

namespace tasuki {

std::string type_name(const std::type_info& type);

}  // namespace tasuki

// The GPU that tests run on, if there is one.
#pragma once

#include <optional>
#include <string>

namespace tasuki::testing {

// Why no GPU can be used here, in one line; nothing where one can. Loads the CUDA backend.
std::optional<std::string> why_no_gpu();

}  // namespace tasuki::testing

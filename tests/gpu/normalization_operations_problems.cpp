#include "problems.hpp"

namespace tasuki::testing {

void add_normalization_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

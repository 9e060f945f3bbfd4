#include "problems.hpp"

namespace tasuki::testing {

void add_array_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

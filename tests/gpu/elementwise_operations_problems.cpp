#include "problems.hpp"

namespace tasuki::testing {

void add_elementwise_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

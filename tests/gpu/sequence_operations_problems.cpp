#include "problems.hpp"

namespace tasuki::testing {

void add_sequence_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

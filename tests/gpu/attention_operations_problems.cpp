#include "problems.hpp"

namespace tasuki::testing {

void add_attention_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

#include "problems.hpp"

namespace tasuki::testing {

void add_loss_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

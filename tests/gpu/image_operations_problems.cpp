#include "problems.hpp"

namespace tasuki::testing {

void add_image_operations_problems(Problems& /*problems*/) {}

}  // namespace tasuki::testing

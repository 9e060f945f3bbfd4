// A user's update rule with a CUDA kernel: Chainer's MomentumSGD once more.
#pragma once

#include "optimizer/update_rule.hpp"

namespace tasuki::testing {

void launch_own_momentum(const RuleArena& arena);

}  // namespace tasuki::testing

// LocalStepSettings: how machines that train by themselves bring their weights together
// (local_steps.hpp).
#pragma once

#include <cstdint>

namespace tasuki {

// What happens to the mean difference of the groups' weights. `mean`: the weights become their
// mean. `nesterov`: the difference is the negative gradient of a step of SGD with Nesterov's
// momentum (in PyTorch's form) from the weights of the last synchronisation.
enum class OuterOptimizer : std::uint8_t { mean, nesterov };

struct LocalStepSettings {
  std::int64_t every = 1;   // the most steps from one synchronisation to the next, at least 1
  std::int64_t warmup = 0;  // each of so many first steps is followed by one, with the plain mean
  OuterOptimizer outer = OuterOptimizer::mean;
  double lr = 0.7, momentum = 0.9;  // of nesterov; above 0, and from 0 to below 1
  // The differences travel during the next steps (by a thread, which needs MPI_THREAD_MULTIPLE;
  // otherwise at the next synchronisation), after which each group adds what the other ones
  // have brought: w += new outer weights - (old outer weights + what was sent).
  bool overlap = false;
};

}  // namespace tasuki

// What a run with local steps (optimizer/local_steps.hpp) saves beside its model and its first
// group's optimizer states.
#pragma once

#include "optimizer/local_steps.hpp"
#include "saving/serializer.hpp"
#include "saving/state.hpp"

namespace tasuki {

// The outer momentum, and the optimizer states of all groups but the first, which
// serialize_optimizers() saves. Call it after that, at a synchronisation; `steps`: done so far.
// Loading gives each group its states if the saved run had as many groups; if not, groups go on
// with the first group's. A run that had no local steps leaves a momentum of zeros. Collective over
// LocalSteps::all(), whose serializer this is.
void serialize_local_steps(const Serializer& serializer, const NamedOptimizers& optimizers,
                           LocalSteps& local_steps, std::int64_t steps);

// For a run without local steps: warns if the saved one had them.
void warn_of_local_steps(const Serializer& serializer);

}  // namespace tasuki

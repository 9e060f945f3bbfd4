// What a run needs of a model and of an optimizer to go on, under Chainer's keys.
#pragma once

#include "tasuki/nn/module.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/training/serializer.hpp"

namespace tasuki {

// Parameters and buffers by path. Buffers (running statistics) may differ between ranks: those of
// each rank are kept besides rank 0's, which a run with another number of ranks goes on with.
void serialize_model(const Serializer& serializer, const Module& model);

// Number of updates, hyper-parameters and the state of each parameter (<path>/m). Loading refuses
// the state of another kind of optimizer. Collective like all of Serializer.
void serialize_optimizer(const Serializer& serializer, Optimizer& optimizer);

}  // namespace tasuki

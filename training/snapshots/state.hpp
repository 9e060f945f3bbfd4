// What a run needs of a model and of an optimizer to go on.
//
// Keys are Chainer's wherever Tasuki has what they are about, some of them for others to read only
// (t of each parameter, is_new_epoch). Not there: the iterator's order and current_position, as the
// order of examples is a function of (seed, epoch, shard). So Chainer loads the weights; the rest
// of a trainer's state is Tasuki's own.
#pragma once

#include <string>

#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/nn/module.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/training/snapshots/serializer.hpp"

namespace tasuki {

// What must be the same in a run that goes on.
struct RunIdentity {
  std::uint64_t seed = 0;
  std::int64_t ranks = 1;  // that an epoch is dealt to
};
// Where a run is.
struct RunPosition {
  std::int64_t iteration = 0;  // done
  IteratorState data;
};
// Loading refuses another seed, and a step in the middle of an epoch that was dealt in another way:
// examples would be repeated or left out. From the end of an epoch all of that may change; then it
// returns what differs, as one line, else nothing.
std::string serialize_position(const Serializer& serializer, const RunIdentity& run,
                               const EpochLayout& layout, std::int64_t steps_per_epoch,
                               RunPosition& position);
// The same of a run that has done `position.iteration` steps and whose last one ended there; when
// loading, takes the iterator to the position that was loaded and says what differs.
void serialize_position(const Serializer& serializer, const RunIdentity& run, RunPosition& position,
                        Iterator& iterator);

// Loading: parameters without a shape take that of the snapshot, before anything else is loaded
// into the model or the optimizer. One that had none when it was saved is not in a snapshot.
void load_shapes(const Serializer& serializer, Optimizer& optimizer);

// Parameters and buffers by path. Buffers (running statistics) may differ between ranks: those of
// each rank are kept besides rank 0's, which a run with another number of ranks goes on with.
void serialize_model(const Serializer& serializer, const Module& model);

// Number of updates, hyper-parameters and the state of each parameter (<path>/m). Loading refuses
// the state of another kind of optimizer, and warns of other hooks, which it leaves as they are.
// Collective like all of Serializer.
void serialize_optimizer(const Serializer& serializer, Optimizer& optimizer);
// The first of that: refuses another kind of optimizer.
void serialize_kind(const Serializer& serializer, const Optimizer& optimizer);

}  // namespace tasuki

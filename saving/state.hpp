// The state of a model and of an optimizer that a resumed run needs.
//
// Keys are Chainer's if Chainer has the value; some of them are only for other readers (t of each
// parameter, is_new_epoch). The iterator's order and current_position are missing, because the
// order of examples is a function of (seed, epoch, shard). So Chainer loads the weights and the
// optimizer's state; the rest of a trainer's state is Tasuki's own.
//
// Sources: position.cpp has the position of a run and whether a run can go on from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "nn/module.hpp"
#include "optimizer/local_steps.hpp"
#include "optimizer/optimizer.hpp"
#include "saving/serializer.hpp"

namespace tasuki {

class ReplicaSet;
struct ResumeSource;
struct SavingRanks;

// What rounding depends on, for steps that have the same bits otherwise: the type of processor, its
// instructions, glibc, oneDNN, and the builds of Tasuki.
std::vector<std::string> computed_on();

// What must be the same in a continued run.
struct RunIdentity {
  std::uint64_t seed = 0;
  std::int64_t ranks = 1;    // that have examples; may change where an epoch's layout has shards
  std::int64_t batches = 1;  // of an iteration
};
// The position of a run.
struct RunPosition {
  std::int64_t iteration = 0;  // done
  IteratorState data;
};
// Saves the position of a run that has done `position.iteration` steps, or loads it and moves the
// iterator there. Loading refuses another seed. In the middle of an epoch it also refuses another
// way of dealing examples, which would repeat or leave out some examples, and another number of
// batches in an iteration; the number of ranks alone does not matter where examples are dealt to
// shards. At the end of an epoch all of these may change; a line then says what differs.
void serialize_position(const Serializer& serializer, const RunIdentity& run, RunPosition& position,
                        Iterator& iterator);

// Loading: parameters without a shape take the saved one, before anything else is loaded into the
// model or the optimizer. A parameter that had no shape is not saved.
void load_shapes(const Serializer& serializer, Optimizer& optimizer);

// Parameters and buffers by path. Buffers (running statistics) may differ between ranks: each
// rank's are kept beside rank 0's, which a run with another number of ranks uses. `are_alike`: they
// do not differ. Parameters whose values nodes divide (ValueMemory::is_divided) are saved in pieces
// where the serializer takes them; otherwise rank 0 has all of them until the file is written.
void serialize_model(const Serializer& serializer, const Module& model, bool are_alike = false);

// Number of updates, hyper-parameters and the state of each parameter (<path>/m). Loading refuses
// the state of another kind of optimizer, and warns of other hooks, groups, ways to exchange
// gradients and statistics of batch normalisation, which stay as they are. `local_steps`: which the
// optimizer trains with; the states of the first group are saved, and loaded by all groups.
// Collective like all of Serializer.
void serialize_optimizer(const Serializer& serializer, Optimizer& optimizer,
                         const LocalSteps* local_steps = nullptr);
// With Serializer::takes_pieces(): saves this rank's piece of each state of a parameter, if it has
// one.
void save_state_pieces(const Serializer& of_parameter, const OptimizerStates& states,
                       const ParameterArena::Entry& entry);
// Only the first check of serialize_optimizer(): refuses another kind of optimizer.
void serialize_kind(const Serializer& serializer, const Optimizer& optimizer);
// An optimizer by its name in saved states, as in Chainer's: updater/optimizer:main, and
// updater/model:main for its model.
struct NamedOptimizer {
  std::string name;
  Optimizer* optimizer;
};
using NamedOptimizers = std::vector<NamedOptimizer>;

// Shapes, model and optimizer of each: model:main, optimizer:main. `epoch`: of the run, for other
// readers. `local_steps`: see serialize_optimizer(); running statistics are then the same on all
// ranks.
void serialize_optimizers(const Serializer& serializer, const NamedOptimizers& optimizers,
                          std::int64_t epoch, const LocalSteps* local_steps = nullptr);

// Refuses a saved state of other models, on all ranks. Collective.
void check_models(const ResumeSource& from, const NamedOptimizers& optimizers,
                  const SavingRanks& ranks);

// A run that has neither data nor a trainer yet.
struct RunDescription {
  RunIdentity identity;
  // The layout of its iterator; nothing if it is not known yet.
  std::optional<EpochLayout> layout;
  std::int64_t steps_per_epoch = 0;
};
// Refuses what resume() (training/resume.hpp) would: another model, optimizer or seed, and if the
// layout is known, a position that this run cannot continue from. Returns the position. Collective;
// the communicator may be null.
RunPosition check_resumable(const ResumeSource& from, const RunDescription& run,
                            const NamedOptimizers& optimizers, Communicator* communicator,
                            const ReplicaSet* replicas = nullptr);

}  // namespace tasuki

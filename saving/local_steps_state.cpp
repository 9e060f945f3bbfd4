#include "saving/local_steps_state.hpp"

#include <fmt/core.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"

namespace tasuki {
namespace {

bool is_root(const Serializer& serializer) {
  return serializer.communicator() == nullptr || serializer.communicator()->rank() == 0;
}

void serialize_momentum(const Serializer& serializer, const NamedOptimizers& optimizers,
                        const LocalSteps& local_steps) {
  for (const auto& [name, optimizer] : optimizers) {
    const Tensor momentum = local_steps.momentum_of(*optimizer);
    if (!momentum) return;
    const Serializer of_optimizer = serializer["momentum"][name];
    for (const ParameterArena::Entry& entry : optimizer->arena().entries())
      if (!serializer.is_loading() || of_optimizer.contains(entry.path))
        of_optimizer(entry.path,
                     ParameterArena::part(momentum, entry).reshape(entry.parameter->shape()));
  }
}

// Arrays of a group, in one order on all ranks: how often each optimizer has updated, and its
// states by parameter.
struct GroupArray {
  std::string path;  // below the group's serializer
  Optimizer* optimizer;
  const ParameterArena::Entry* entry = nullptr;  // null: the number of updates
  std::string state = {};
  Shape shape() const { return entry ? entry->parameter->shape() : Shape{1}; }
  DType dtype() const { return entry ? DType::float32 : DType::int64; }
};

std::vector<GroupArray> arrays_of(const NamedOptimizers& optimizers) {
  std::vector<GroupArray> arrays;
  for (const auto& [name, optimizer] : optimizers) {
    arrays.push_back({name + "/t", optimizer});
    for (const ParameterArena::Entry& entry : optimizer->arena().entries())
      for (const std::string& state : optimizer->states().names())
        arrays.push_back(
            {fmt::format("{}/{}/{}", name, entry.path, state), optimizer, &entry, state});
  }
  return arrays;
}

Tensor updates_of(const Optimizer& optimizer) {
  return Tensor::full({1}, static_cast<double>(optimizer.t()), DType::int64);
}

// Whether this rank's states are no other rank's copies: ranks of each socket may hold all of them.
bool has_first_copy(const Optimizer& optimizer) {
  if (optimizer.states().are_sharded()) return true;
  const auto rank = static_cast<std::size_t>(optimizer.communicator()->rank());
  return optimizer.weights().holders()[rank] == 0;
}

// Each rank of a group saves what it has.
void save_pieces(const Serializer& serializer, const NamedOptimizers& optimizers,
                 const LocalSteps& local_steps) {
  if (local_steps.own_group() == 0) return;
  const Serializer of_group = serializer[std::to_string(local_steps.own_group())];
  const bool is_first = local_steps.group().rank() == 0;
  for (const auto& [name, optimizer] : optimizers) {
    const Serializer of_optimizer = of_group[name];
    if (is_first) of_optimizer.save_piece("t", {1}, 0, updates_of(*optimizer));
    if (!has_first_copy(*optimizer)) continue;
    for (const ParameterArena::Entry& entry : optimizer->arena().entries())
      save_state_pieces(of_optimizer[entry.path], optimizer->states(), entry);
  }
}

// The states of this rank's group, on its first rank; empty on others. Collective among the group.
Bytes pack_states(const NamedOptimizers& optimizers, const LocalSteps& local_steps) {
  Bytes packed;
  const auto append = [&packed](const Tensor& values) {
    const auto* const raw = static_cast<const std::byte*>(values.raw());
    packed.insert(packed.end(), raw, raw + values.bytes());
  };
  for (const auto& [name, optimizer] : optimizers) {
    const OptimizerStates& states = optimizer->states();
    std::vector<Tensor> whole;
    for (const std::string& state : states.names()) whole.push_back(states.gather(state, 0));
    if (local_steps.group().rank() != 0) continue;
    append(updates_of(*optimizer));
    for (const ParameterArena::Entry& entry : optimizer->arena().entries())
      for (const Tensor& state : whole) append(ParameterArena::part(state, entry));
  }
  return packed;
}

// Rank 0 gets the states of one group after the other.
void save_whole(const Serializer& serializer, const NamedOptimizers& optimizers,
                const std::vector<GroupArray>& arrays, const LocalSteps& local_steps) {
  for (int group = 1; group < local_steps.groups(); ++group) {
    const Bytes own =
        group == local_steps.own_group() ? pack_states(optimizers, local_steps) : Bytes();
    std::size_t at = 0;
    for (const Bytes& sent : gather_bytes(local_steps.all(), own, 0))
      for (std::size_t i = 0; i < arrays.size() && !sent.empty(); ++i) {
        const Tensor values = Tensor::empty(arrays[i].shape(), arrays[i].dtype());
        TASUKI_CHECK(values.bytes() <= sent.size() - at, "states of group {} end at {}", group,
                     arrays[i].path);
        std::memcpy(values.raw(), sent.data() + at, values.bytes());
        at += values.bytes();
        serializer[std::to_string(group)](arrays[i].path, values);
      }
  }
}

void load_states(const Serializer& serializer, const std::vector<GroupArray>& arrays,
                 const LocalSteps& local_steps) {
  for (int group = 1; group < local_steps.groups(); ++group)
    for (const GroupArray& each : arrays) {
      const Tensor values = Tensor::empty(each.shape(), each.dtype());
      serializer[std::to_string(group)](each.path, values);
      if (local_steps.own_group() != group) continue;
      if (each.entry != nullptr)
        each.optimizer->states().set(*each.entry->parameter, each.state, values);
      else
        each.optimizer->set_t(*values.data<std::int64_t>());
    }
}

}  // namespace

void serialize_local_steps(const Serializer& serializer, const NamedOptimizers& optimizers,
                           LocalSteps& local_steps, std::int64_t steps) {
  const bool is_loading = serializer.is_loading();
  if (is_loading) local_steps.follow_changes();  // loading may have frozen parameters
  if (!is_loading || serializer.contains("groups")) {
    std::int64_t groups = local_steps.groups();
    serialize_count(serializer, "groups", groups);
    serialize_momentum(serializer, optimizers, local_steps);
    const Serializer states = serializer["states"];
    const std::vector<GroupArray> arrays = arrays_of(optimizers);
    if (!is_loading && serializer.takes_pieces())
      save_pieces(states, optimizers, local_steps);
    else if (!is_loading)
      save_whole(states, optimizers, arrays, local_steps);
    else if (groups == local_steps.groups())
      load_states(states, arrays, local_steps);
    else if (is_root(serializer))
      log_warning(
          "the snapshot has optimizer states of {} machines that trained by themselves, this run "
          "has {}: each continues with those of the first",
          groups, local_steps.groups());
  }
  if (is_loading) local_steps.continue_from(steps);
}

void warn_of_local_steps(const Serializer& serializer) {
  if (serializer.is_loading() && serializer.contains("groups") && is_root(serializer))
    log_warning(
        "the snapshot's run had machines that trained by themselves (--sync-every); continuing "
        "with gradients of all ranks in each step, and the optimizer states of the first machine");
}

}  // namespace tasuki

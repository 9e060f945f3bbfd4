// The states of an Optimizer: of all elements of its arena, or of the slice that this rank owns.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tasuki/optimizer/optimizer.hpp"

namespace tasuki {
namespace {

const ParameterArena::Entry* find_parameter(const std::vector<ParameterArena::Entry>& entries,
                                            const Parameter& parameter) {
  const auto entry = std::ranges::find(entries, &parameter, &ParameterArena::Entry::parameter);
  return entry == entries.end() ? nullptr : &*entry;
}

}  // namespace

void Optimizer::shard_states(bool sharded) {
  TASUKI_CHECK(arena_ == nullptr, "shard_states() comes before setup()");
  wants_sharded_states_ = sharded;
}

SliceOwners Optimizer::owners_of(const ParameterArena& arena) const {
  const std::int64_t count = arena.update_count();
  if (!wants_sharded_states_ || !has_peers() || !communicator_->exchanges_gradients())
    return SliceOwners(count);
  if (!arena.values().device().is_cpu())
    fail_everywhere(ErrorKind::unavailable,
                    "ranks share the states of an optimizer (--shard-optimizer) on CPUs only; the "
                    "model is on {}",
                    arena.values().device().text());
  return {count, *communicator_};
}

std::size_t Optimizer::number_of_state(const std::string& name) const {
  const std::vector<std::string> known = state_names();
  const auto found = std::ranges::find(known, name);
  if (found == known.end())
    fail_everywhere(ErrorKind::usage, "{} has no state \"{}\"; it has {}", rule_->name(), name,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  return static_cast<std::size_t>(found - known.begin());
}

Tensor Optimizer::state(const Parameter& parameter, const std::string& name) const {
  const std::size_t number = number_of_state(name);
  if (const auto* entry = find_parameter(arena().entries(), parameter)) {
    if (shards_states())
      fail_everywhere(ErrorKind::usage,
                      "state {} of {} is divided among the ranks: use gather_state() and "
                      "set_state()",
                      name, entry->path);
    return ParameterArena::part(states_[number], *entry).reshape(parameter.shape());
  }
  const auto* const frozen = find_parameter(arena().frozen(), parameter);
  TASUKI_CHECK(frozen != nullptr, "parameter {} is not the optimizer's", parameter.name());
  std::vector<Tensor>& kept = frozen_states_[frozen->path];
  while (kept.size() < state_names().size())
    kept.push_back(Tensor::zeros({frozen->count}, DType::float32, arena_->values().device()));
  return kept[number].reshape(parameter.shape());
}

Tensor Optimizer::gather_state(const std::string& name, std::optional<int> root) const {
  const std::size_t number = number_of_state(name);
  return root ? owners_->gather(states_[number], *root) : whole_state(number);
}

void Optimizer::set_state(const Parameter& parameter, const std::string& name,
                          const Tensor& values) const {
  const auto* entry = find_parameter(arena().entries(), parameter);
  if (entry == nullptr || !shards_states()) return state(parameter, name).copy_from(values);
  TASUKI_CHECK(values.shape() == parameter.shape(), "values of {} for a state of {}",
               values.shape().text(), parameter.shape_text());
  const Range own = owners_->own();
  const std::int64_t begin = std::max(own.begin, entry->offset);
  const std::int64_t end = std::min(own.end, entry->offset + entry->count);
  if (begin >= end) return;
  states_[number_of_state(name)]
      .slice(begin - own.begin, end - own.begin)
      .copy_from(
          values.plain().reshape({entry->count}).slice(begin - entry->offset, end - entry->offset));
}

bool Optimizer::has_states(const Parameter& parameter) const {
  const auto* entry = find_parameter(arena().frozen(), parameter);
  return entry == nullptr || frozen_states_.contains(entry->path);
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& state : states_) bytes += state.bytes();
  for (const auto& [path, kept] : frozen_states_)
    for (const Tensor& state : kept) bytes += state.bytes();
  return bytes;
}

Tensor Optimizer::whole_state(std::size_t number) const {
  const Tensor& own = states_[number];
  if (!shards_states()) return own;
  const Tensor all = Tensor::zeros({arena_->update_count()});
  const Range slice = owners_->own();
  all.slice(slice.begin, slice.end).copy_from(own);
  owners_->share(all);
  return all;
}

// By path: out of the old arena, or out of what was kept while the parameter was frozen. One state
// after the other, because ranks that share them see a whole one meanwhile.
void Optimizer::move_states(const ParameterArena& arena, const SliceOwners& owners) {
  using Entry = ParameterArena::Entry;
  const auto find_old = [this](const Entry& entry) -> const Entry* {
    if (!arena_) return nullptr;
    const auto old = std::ranges::find_if(arena_->entries(), [&](const Entry& candidate) {
      return candidate.path == entry.path && candidate.count == entry.count;
    });
    return old == arena_->entries().end() ? nullptr : &*old;
  };
  for (const Entry& entry : arena.frozen())
    if (find_old(entry) != nullptr) frozen_states_[entry.path].clear();

  const Device device = arena.gradients().device();
  const Range own = owners.own();
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < state_names().size(); ++i) {
    const Tensor old_state = arena_ ? whole_state(i) : Tensor();
    for (const Entry& entry : arena.frozen())
      if (const Entry* old = find_old(entry))
        frozen_states_[entry.path].push_back(ParameterArena::part(old_state, *old).clone());
    states.push_back(Tensor::zeros({own.size()}, DType::float32, device));
    for (const Entry& entry : arena.entries()) {
      Tensor from;
      if (const Entry* old = find_old(entry)) {
        from = ParameterArena::part(old_state, *old);
      } else if (const auto kept = frozen_states_.find(entry.path);
                 kept != frozen_states_.end() && kept->second[i].count() == entry.count) {
        from = kept->second[i];
      }
      const std::int64_t begin = std::max(own.begin, entry.offset);
      const std::int64_t end = std::min(own.end, entry.offset + entry.count);
      if (from && begin < end)
        states.back()
            .slice(begin - own.begin, end - own.begin)
            .copy_from(from.slice(begin - entry.offset, end - entry.offset));
    }
  }
  for (const Entry& entry : arena.entries()) frozen_states_.erase(entry.path);
  states_ = std::move(states);
}

}  // namespace tasuki

#include "optimizer/optimizer_states.hpp"

#include <algorithm>
#include <utility>

#include "core/printable.hpp"

namespace tasuki {
namespace {

using Entry = ParameterArena::Entry;

const Entry* find_parameter(const std::vector<Entry>& entries, const Parameter& parameter) {
  const auto entry = std::ranges::find(entries, &parameter, &Entry::parameter);
  return entry == entries.end() ? nullptr : &*entry;
}

}  // namespace

OptimizerStates::OptimizerStates(std::shared_ptr<const UpdateRule> rule,
                                 const TrainedModel& trained, const SharedWeights& weights)
    : rule_(std::move(rule)), trained_(trained), weights_(weights) {}

// --- who keeps them ---

void OptimizerStates::shard(bool sharded) {
  TASUKI_CHECK(trained_.arena == nullptr, "shard() comes before setup()");
  is_wanted_ = sharded;
}

bool OptimizerStates::will_be_sharded() const {
  return is_wanted_ && trained_.has_peers() && trained_.communicator->exchanges_gradients();
}

SliceOwners OptimizerStates::owners_of(const ParameterArena& arena) const {
  const std::int64_t count = arena.update_count();
  const bool is_on_cpu = arena.values().device().is_cpu();  // NCCL sums everything for all ranks
  if (will_be_sharded()) {
    Communicator& all = *trained_.communicator;
    return {count, all, is_on_cpu ? arena_slices(count, all.size()) : SliceOwners::Needed()};
  }
  SliceOwners::Needed needed;
  if (is_on_cpu && weights_.are_shared()) needed = slices_of_groups(count, weights_.groups());
  if (arena.is_shared()) return {count, *weights_.sharers(), std::move(needed)};
  return SliceOwners(count, std::move(needed));
}

// --- values ---

std::size_t OptimizerStates::number_of(const std::string& name) const {
  const std::vector<std::string> known = names();
  const auto found = std::ranges::find(known, name);
  if (found == known.end())
    fail_everywhere(ErrorKind::usage, "{} has no state \"{}\"; it has {}", rule_->name(), name,
                    known.empty() ? "none" : join(known, ", "));
  return static_cast<std::size_t>(found - known.begin());
}

Tensor OptimizerStates::of(const Parameter& parameter, const std::string& name) const {
  const std::size_t number = number_of(name);
  const ParameterArena& arena = trained_.checked_arena();
  if (const Entry* entry = find_parameter(arena.entries(), parameter)) {
    if (are_divided())
      fail_everywhere(ErrorKind::usage,
                      "state {} of {} is divided among the ranks: use gather() and set()", name,
                      entry->path);
    return ParameterArena::part(values_[number], *entry).reshape(parameter.shape());
  }
  const Entry* const frozen = find_parameter(arena.frozen(), parameter);
  TASUKI_CHECK(frozen != nullptr, "parameter {} is not the optimizer's", parameter.name());
  std::vector<Tensor>& kept = of_frozen_[frozen->path];
  while (kept.size() < names().size())
    kept.push_back(Tensor::zeros({frozen->count}, DType::float32, arena.values().device()));
  return kept[number].reshape(parameter.shape());
}

Tensor OptimizerStates::gather(const std::string& name, std::optional<int> root) const {
  const std::size_t number = number_of(name);
  if (!root || !are_divided()) return whole(number);
  if (are_sharded_) return owners_->gather(values_[number], *root);
  // The ranks that share weights with the root have all parts of the state.
  const std::vector<std::int64_t>& groups = weights_.groups();
  const auto group_of_root = groups.begin() + *root;
  if (groups[static_cast<std::size_t>(trained_.communicator->rank())] != *group_of_root) return {};
  const auto rank_among_sharers = std::count(groups.begin(), group_of_root, *group_of_root);
  return owners_->gather(values_[number], static_cast<int>(rank_among_sharers));
}

OptimizerStates::Part OptimizerStates::own(const std::string& name) const {
  return {owners_->own(), values_[number_of(name)]};
}

void OptimizerStates::set(const Parameter& parameter, const std::string& name,
                          const Tensor& values) const {
  const Entry* const entry = find_parameter(trained_.checked_arena().entries(), parameter);
  if (entry == nullptr) return of(parameter, name).copy_from(values);
  TASUKI_CHECK(values.shape() == parameter.shape(), "values of {} for a state of {}",
               values.shape().text(), parameter.shape_text());
  const Range own = owners_->own();
  const std::int64_t begin = std::max(own.begin, entry->offset);
  const std::int64_t end = std::min(own.end, entry->offset + entry->count);
  if (begin >= end) return;
  values_[number_of(name)]
      .slice(begin - own.begin, end - own.begin)
      .copy_from(
          values.plain().reshape({entry->count}).slice(begin - entry->offset, end - entry->offset));
}

bool OptimizerStates::has(const Parameter& parameter) const {
  const Entry* const entry = find_parameter(trained_.checked_arena().frozen(), parameter);
  return entry == nullptr || of_frozen_.contains(entry->path);
}

std::size_t OptimizerStates::bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& state : values_) bytes += state.bytes();
  for (const auto& [path, kept] : of_frozen_)
    for (const Tensor& state : kept) bytes += state.bytes();
  return bytes;
}

Tensor OptimizerStates::whole(std::size_t number) const {
  const Tensor& own = values_[number];
  if (!owners_->are_several()) return own;
  Tensor all = Tensor::zeros({trained_.arena->update_count()}, DType::float32, own.device());
  const Range slice = owners_->own();
  all.slice(slice.begin, slice.end).copy_from(own);
  owners_->share(all);
  return all;
}

// --- another arena ---

void OptimizerStates::clear() {
  are_sharded_ = false;
  owners_.reset();
  values_.clear();
  of_frozen_.clear();
}

// Finds old states by path, in the old arena or among those of frozen parameters. States move one
// after the other, because each rank needs the memory of a whole one meanwhile.
void OptimizerStates::move_to(const ParameterArena& arena) {
  const SliceOwners owners = owners_of(arena);
  const ParameterArena* const before = trained_.arena.get();
  const auto find_old = [before](const Entry& entry) -> const Entry* {
    if (before == nullptr) return nullptr;
    const auto old = std::ranges::find_if(before->entries(), [&](const Entry& candidate) {
      return candidate.path == entry.path && candidate.count == entry.count;
    });
    return old == before->entries().end() ? nullptr : &*old;
  };
  for (const Entry& entry : arena.frozen())
    if (find_old(entry) != nullptr) of_frozen_[entry.path].clear();

  const Range own = owners.own();
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < names().size(); ++i) {
    const Tensor old_state = before ? whole(i) : Tensor();
    for (const Entry& entry : arena.frozen())
      if (const Entry* old = find_old(entry))
        of_frozen_[entry.path].push_back(ParameterArena::part(old_state, *old).clone());
    states.push_back(Tensor::zeros({own.size()}, DType::float32, arena.gradients().device()));
    for (const Entry& entry : arena.entries()) {
      Tensor from;
      if (const Entry* old = find_old(entry)) {
        from = ParameterArena::part(old_state, *old);
      } else if (const auto kept = of_frozen_.find(entry.path);
                 kept != of_frozen_.end() && kept->second[i].count() == entry.count) {
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
  for (const Entry& entry : arena.entries()) of_frozen_.erase(entry.path);
  values_ = std::move(states);
  owners_ = owners;
  are_sharded_ = will_be_sharded();
}

}  // namespace tasuki

// The states of an Optimizer: of all elements of its arena, or of the slice that this rank owns.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "communicator/node/node_array.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/update_plan.hpp"

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

void Optimizer::share_weights(bool shared, std::int64_t group) {
  TASUKI_CHECK(arena_ == nullptr, "share_weights() comes before setup()");
  wants_shared_weights_ = shared;
  group_ = group;
}

std::string Optimizer::find_why_not_shared() const {
  if (!has_peers()) return "one rank";
  if (!model_->device().is_cpu()) return "on " + model_->device().text();
  if (!communicator_->exchanges_gradients() || !communicator_->shares_memory())
    return "communicator " + communicator_->name();
  if (communicator_->inter_size() == communicator_->size()) return "one rank on each node";
  if (const OptimizerHook* hook = plan_->hook_of_arrays())
    return fmt::format("hook {} works on all gradients", hook->name());
  return "";
}

std::unique_ptr<Communicator> Optimizer::find_sharers() {
  why_not_shared_ = wants_shared_weights_ ? find_why_not_shared() : "";
  if (!wants_shared_weights_ || !why_not_shared_.empty()) return std::move(sharers_);
  if (sharers_) return nullptr;
  const Tensor own = Tensor::from(std::span<const std::int64_t>(&group_, 1), {1});
  groups_.clear();
  std::vector<std::pair<int, std::int64_t>> known;
  for (int rank = 0; const Tensor& other : communicator_->allgather(own)) {
    const std::pair group{communicator_->topology().node_of[static_cast<std::size_t>(rank++)],
                          other.to(Device::cpu()).data<std::int64_t>()[0]};
    const auto found = std::ranges::find(known, group);
    groups_.push_back(found - known.begin());
    if (found == known.end()) known.push_back(group);
  }
  if (known.size() == groups_.size()) {
    why_not_shared_ = "one rank on each socket";
    return nullptr;
  }
  const auto rank = static_cast<std::size_t>(communicator_->rank());
  sharers_ = communicator_->split(static_cast<int>(groups_[rank]), communicator_->rank());
  if (!all_ranks(sharers_->size() == 1 || allocate_once(*sharers_, 1) != nullptr)) {
    why_not_shared_ = "/proc/self/pagemap cannot be read";
    sharers_.reset();
  }
  return nullptr;
}

std::vector<int> Optimizer::holders_of_weights() const {
  std::vector<int> holders(has_peers() ? static_cast<std::size_t>(communicator_->size()) : 1);
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    const auto first = shares_weights()
                           ? std::ranges::find(groups_, groups_[rank]) - groups_.begin()
                           : static_cast<std::ptrdiff_t>(rank);
    holders[rank] = static_cast<int>(first);
  }
  return holders;
}

std::string Optimizer::describe_weights() const {
  if (shares_weights()) return "one set for the ranks of a node";
  return why_not_shared_.empty() ? "one set per rank"
                                 : fmt::format("one set per rank ({})", why_not_shared_);
}

bool Optimizer::are_states_sharded() const {
  return wants_sharded_states_ && has_peers() && communicator_->exchanges_gradients();
}

void Optimizer::check_sharded_rule() const {
  if (!are_states_sharded() || plan_->can_update_slices(model_->device())) return;
  fail_everywhere(ErrorKind::usage,
                  "--shard-optimizer and --gpu: an update by {} needs the states of all parameters "
                  "on each GPU; leave one out, or choose another --optimizer",
                  rule_->name());
}

SliceOwners Optimizer::owners_of(const ParameterArena& arena) const {
  const std::int64_t count = arena.update_count();
  if (are_states_sharded()) return {count, *communicator_};
  if (arena.is_shared()) return {count, *sharers_};
  return SliceOwners(count);
}

std::vector<Range> Optimizer::needed_of(const ParameterArena& arena,
                                        const SliceOwners& owners) const {
  if (!arena.values().device().is_cpu()) return {};  // NCCL sums all gradients for all ranks
  if (are_states_sharded()) return owners.slices();
  if (shares_weights()) return slices_of_groups(arena.update_count(), groups_);
  return {};
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
    if (divides_states())
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
  if (!root || !divides_states()) return whole_state(number);
  if (shards_states_) return owners_->gather(states_[number], *root);
  // The ranks that share weights with the root have all parts of the state.
  const auto group_of_root = groups_.begin() + *root;
  if (groups_[static_cast<std::size_t>(communicator_->rank())] != *group_of_root) return {};
  const auto rank_among_sharers = std::count(groups_.begin(), group_of_root, *group_of_root);
  return owners_->gather(states_[number], static_cast<int>(rank_among_sharers));
}

Optimizer::OwnState Optimizer::own_state(const std::string& name) const {
  return {owners_->own(), states_[number_of_state(name)]};
}

void Optimizer::set_state(const Parameter& parameter, const std::string& name,
                          const Tensor& values) const {
  const auto* entry = find_parameter(arena().entries(), parameter);
  if (entry == nullptr) return state(parameter, name).copy_from(values);
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
  if (!owners_->are_several()) return own;
  Tensor all = Tensor::zeros({arena_->update_count()}, DType::float32, own.device());
  const Range slice = owners_->own();
  all.slice(slice.begin, slice.end).copy_from(own);
  owners_->share(all);
  return all;
}

// Finds old states by path, in the old arena or among those of frozen parameters. States move one
// after the other, because each rank needs the memory of a whole one meanwhile.
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

  const Range own = owners.own();
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < state_names().size(); ++i) {
    const Tensor old_state = arena_ ? whole_state(i) : Tensor();
    for (const Entry& entry : arena.frozen())
      if (const Entry* old = find_old(entry))
        frozen_states_[entry.path].push_back(ParameterArena::part(old_state, *old).clone());
    states.push_back(Tensor::zeros({own.size()}, DType::float32, arena.gradients().device()));
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

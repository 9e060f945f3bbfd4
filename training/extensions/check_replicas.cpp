#include "training/extensions/check_replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "communicator/text_bytes.hpp"
#include "core/log.hpp"
#include "training/extensions/replica_hash.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

// A parameter, or its part of a state, that is the same on all replicas.
struct ReplicatedArray {
  std::string name;  // "predictor/l1/W", or with "state m of " before it
  bool is_state;
  Tensor values;
};

// In the model's order.
std::vector<ReplicatedArray> arrays_of(const Updater& updater) {
  std::vector<ReplicatedArray> all;
  for (const NamedOptimizer& each : updater.optimizers()) {
    const Optimizer& optimizer = *each.optimizer;
    const ParameterArena& arena = optimizer.arena();
    const auto add = [&](const Tensor& array, const auto& entries, const std::string& state) {
      const std::string prefix = state.empty() ? "" : fmt::format("state {} of ", state);
      for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
        all.push_back({prefix + entry->path, !state.empty(), ParameterArena::part(array, *entry)});
    };
    if (!arena.is_divided()) add(arena.values(), arena.entries(), "");
    add(arena.values(), arena.frozen(), "");
    if (optimizer.states().are_divided()) continue;
    for (const std::string& name : optimizer.states().names())
      add(optimizer.states().gather(name), arena.entries(), name);
  }
  return all;
}

template <class T>
std::vector<T> decode(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Adds up numbers of all ranks, which are the same in number, modulo 2^64: in halves, whose sums a
// signed integer can hold.
void add_over_ranks(Communicator& ranks, std::vector<std::uint64_t>& numbers) {
  std::vector<std::int64_t> halves;
  for (const std::uint64_t number : numbers) {
    halves.push_back(static_cast<std::int64_t>(number >> 32));
    halves.push_back(static_cast<std::int64_t>(number & 0xffffffff));
  }
  const Tensor sums = Tensor::from(std::span<const std::int64_t>(halves), {std::ssize(halves)});
  ranks.allreduce(sums);
  const auto of_all = sums.span<std::int64_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = (static_cast<std::uint64_t>(of_all[2 * i]) << 32) +
                 static_cast<std::uint64_t>(of_all[2 * i + 1]);
}

// The first text of all ranks that is not empty. Ranks with the same part of a model (`replicas`)
// have the same one.
std::string first_text(Communicator& all, const Communicator& replicas, const std::string& own) {
  if (all.size() == replicas.size()) return own;
  const Tensor has_any = Tensor::full({}, own.empty() ? 0 : 1, DType::int32);
  all.allreduce(has_any, ReduceOp::max);
  if (has_any.item() == 0) return "";
  for (const Bytes& bytes : allgather_bytes(all, text_to_bytes(own)))
    if (!bytes.empty()) return std::string(bytes_to_text(bytes));
  return "";
}

bool is_one_copy(const std::vector<int>& holders) {
  return std::ranges::count(holders, 0) == std::ssize(holders);
}

class CheckReplicas final : public Extension {
 public:
  explicit CheckReplicas(std::int64_t iterations) : iterations_(iterations) {}

  std::string default_name() const override { return "CheckReplicas"; }
  // Before anything is reported or saved.
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override {
    return every(static_cast<double>(iterations_), Unit::iteration);
  }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  bool reads_model() const override { return true; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override { compare(trainer, turn_++); }
  void before_save(Trainer& trainer) override { compare(trainer); }
  void finalize(Trainer& trainer) override { compare(trainer); }

 private:
  // `turn`: of ReplicaPart.
  void compare(const Trainer& trainer, std::optional<std::int64_t> turn = std::nullopt);
  // What is wrong with the replicas of this rank's part of the model; empty: nothing. Collective
  // among them.
  std::string find_difference(const Trainer& trainer, std::optional<std::int64_t> turn) const;
  std::string describe(const Trainer& trainer, const ReplicaComparison& found) const;
  std::string when(const Trainer& trainer, bool is_state) const;

  std::int64_t iterations_;
  std::int64_t turn_ = 0;  // of the next comparison in an iteration
  // The last iterations after which all weights were equal, and all states, too.
  std::optional<std::int64_t> equal_after_, states_equal_after_;
};

void CheckReplicas::initialize(Trainer& trainer) {
  Communicator* const replicas = trainer.updater().replicas();
  if (replicas == nullptr || replicas->size() == 1) {
    if (trainer.is_root())
      log_warning(
          "--check-replicas has nothing to compare: no other rank has a copy of the weights");
    return;
  }
  if (!replicas->exchanges_gradients())
    fail_everywhere(ErrorKind::usage,
                    "--check-replicas and --communicator {}: ranks that exchange no gradients have "
                    "different weights; leave one out",
                    replicas->name());
  const NamedOptimizers optimizers = trainer.updater().optimizers();
  if (trainer.is_root() && std::ranges::all_of(optimizers, [](const NamedOptimizer& each) {
        return is_one_copy(each.optimizer->weights().holders());
      }))
    log_warning(
        "--check-replicas has nothing to compare: all ranks of this machine read one copy of the "
        "weights (--node-weights private gives each its own)");
  compare(trainer);
}

void CheckReplicas::compare(const Trainer& trainer, std::optional<std::int64_t> turn) {
  const Updater& updater = trainer.updater();
  Communicator* const replicas = updater.replicas();
  const std::int64_t now = updater.iteration();
  if (replicas == nullptr || replicas->size() == 1 || states_equal_after_ == now) return;
  if (turn && equal_after_ == now) return;
  const std::string text = find_difference(trainer, turn);
  if (const std::string first = first_text(*trainer.communicator(), *replicas, text);
      !first.empty())
    fail_everywhere(ErrorKind::disagreement, "{}", first);
  equal_after_ = now;
  if (!turn) states_equal_after_ = now;
}

std::string CheckReplicas::find_difference(const Trainer& trainer,
                                           std::optional<std::int64_t> turn) const {
  const Updater& updater = trainer.updater();
  Communicator* const replicas = updater.replicas();
  const auto rank = static_cast<std::size_t>(replicas->rank());
  const auto ranks = static_cast<std::size_t>(replicas->size());
  std::vector<std::vector<int>> holders;  // for each optimizer
  std::vector<std::uint64_t> hashes;      // for each optimizer, by holder
  for (const NamedOptimizer& each : updater.optimizers()) {
    const std::vector<int>& of_ranks = holders.emplace_back(each.optimizer->weights().holders());
    hashes.resize(hashes.size() + ranks);
    if (is_one_copy(of_ranks)) continue;
    const auto sharer = std::ranges::count(std::span(of_ranks).first(rank), of_ranks[rank]);
    const auto sharers = std::ranges::count(of_ranks, of_ranks[rank]);
    hashes[hashes.size() - ranks + static_cast<std::size_t>(of_ranks[rank])] =
        hash_of_replica(*each.optimizer, {sharer, sharers, turn});
  }
  if (std::ranges::all_of(holders, is_one_copy)) return "";
  add_over_ranks(*replicas, hashes);

  for (std::size_t i = 0; i < holders.size(); ++i) {
    std::vector<std::uint64_t> of_ranks;
    for (const int holder : holders[i])
      of_ranks.push_back(hashes[i * ranks + static_cast<std::size_t>(holder)]);
    const ReplicaComparison found = compare_replicas(of_ranks, holders[i]);
    if (!found.deviating.empty()) return describe(trainer, found);
  }
  return "";
}

// "rank 1 on a and ranks 2, 3 on b"
std::string text_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& host_of) {
  constexpr std::size_t most_named = 16;
  std::map<std::string, std::vector<int>> by_host;
  for (const int rank : ranks) by_host[host_of.at(static_cast<std::size_t>(rank))].push_back(rank);
  std::vector<std::string> parts;
  for (const auto& [host, those] : by_host) {
    if (parts.size() == most_named) return fmt::format("{}, ...", fmt::join(parts, ", "));
    const auto named = std::span(those).first(std::min(those.size(), most_named));
    parts.push_back(fmt::format("{} {}{} on {}", those.size() == 1 ? "rank" : "ranks",
                                fmt::join(named, ", "), named.size() < those.size() ? ", ..." : "",
                                host));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string CheckReplicas::when(const Trainer& trainer, bool is_state) const {
  const std::int64_t now = trainer.updater().iteration();
  const auto& equal_after = is_state ? states_equal_after_ : equal_after_;
  if (!equal_after) return fmt::format("before iteration {}", now + 1);
  return fmt::format("after iteration {} (after iteration {} all were equal)", now, *equal_after);
}

std::string CheckReplicas::describe(const Trainer& trainer, const ReplicaComparison& found) const {
  Communicator& replicas = *trainer.updater().replicas();
  const std::vector<ReplicatedArray> arrays = arrays_of(trainer.updater());
  std::vector<std::uint64_t> own = {static_cast<std::uint64_t>(trainer.communicator()->rank())};
  for (const ReplicatedArray& array : arrays) own.push_back(hash_of_array(array.values));
  std::vector<std::vector<std::uint64_t>> all;
  for (const Bytes& bytes : allgather_bytes(replicas, std::as_bytes(std::span(own))))
    all.push_back(decode<std::uint64_t>(bytes));
  const ReplicatedArray* first = nullptr;
  for (std::size_t i = 0; i < arrays.size() && first == nullptr; ++i)
    if (std::ranges::any_of(all, [&](const auto& of) { return of[i + 1] != all.front()[i + 1]; }))
      first = &arrays[i];

  std::vector<int> ranks;
  for (const int rank : found.deviating)
    ranks.push_back(static_cast<int>(all[static_cast<std::size_t>(rank)].front()));
  const std::string who = text_of_ranks(ranks, trainer.communicator()->topology().host_of);
  const std::string where = first ? ", first in " + first->name : "";
  const std::string after = when(trainer, first && first->is_state);
  if (found.has_majority)
    return fmt::format(
        "replicas differ {}: {} {} from the other {}{}; if memory is damaged there, "
        "leave that machine out and continue from an earlier snapshot",
        after, who, ranks.size() == 1 ? "deviates" : "deviate", all.size() - ranks.size(), where);
  return fmt::format(
      "replicas differ {}: {} do not have the same weights, and none has those of a "
      "majority{}; if memory is damaged, leave that machine out and continue from an "
      "earlier snapshot",
      after, who, where);
}

}  // namespace

ReplicaComparison compare_replicas(std::span<const std::uint64_t> hashes,
                                   std::span<const int> holders) {
  const auto is_holder = [&](std::size_t rank) { return holders[rank] == static_cast<int>(rank); };
  std::map<std::uint64_t, std::size_t> copies_with;
  std::size_t copies = 0;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (is_holder(rank)) {
      ++copies_with[hashes[rank]];
      ++copies;
    }
  const auto [hash, votes] =
      *std::ranges::max_element(copies_with, {}, [](const auto& each) { return each.second; });
  ReplicaComparison found;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != hash) found.deviating.push_back(static_cast<int>(rank));
  found.has_majority = 2 * votes > copies;
  if (!found.has_majority) {
    found.deviating.resize(hashes.size());
    std::iota(found.deviating.begin(), found.deviating.end(), 0);
  }
  return found;
}

std::unique_ptr<Extension> check_replicas(std::int64_t iterations) {
  return std::make_unique<CheckReplicas>(iterations);
}

}  // namespace tasuki

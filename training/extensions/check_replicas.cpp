#include "tasuki/training/extensions/check_replicas.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "tasuki/core/hash.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

// Of a flat array, the same on any device. From a GPU it is copied piece by piece.
std::uint64_t hash_of(const Tensor& array, std::uint64_t seed) {
  constexpr std::int64_t piece = std::int64_t{1} << 24;  // elements
  RunningHash hash(seed);
  for (std::int64_t begin = 0; begin < array.count(); begin += piece) {
    const Tensor part =
        array.slice(begin, std::min(array.count(), begin + piece)).to(Device::cpu());
    hash.add({static_cast<const std::byte*>(part.raw()), part.bytes()});
  }
  return hash.value();
}

// An array with the arena's offsets that is the same on all replicas.
struct ReplicatedArray {
  std::string name;  // "predictor/l1/W", or with "state m of " before it
  Tensor values;
};

// All of them whole, or (`by_parameter`) the part of each parameter by its name, in the model's
// order.
std::vector<ReplicatedArray> arrays_of(const Updater& updater, bool by_parameter) {
  std::vector<ReplicatedArray> all;
  for (const NamedOptimizer& each : updater.optimizers()) {
    const Optimizer& optimizer = *each.optimizer;
    const ParameterArena& arena = optimizer.arena();
    const auto add = [&](const std::string& prefix, const Tensor& array, const auto& entries) {
      for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
        all.push_back({prefix + entry->path, ParameterArena::part(array, *entry)});
    };
    if (by_parameter) {
      add("", arena.values(), arena.entries());
      add("", arena.values(), arena.frozen());
    } else {
      all.push_back({"", arena.values()});
    }
    if (optimizer.shards_states() || optimizer.shares_weights()) continue;
    for (const std::string& name : optimizer.state_names()) {
      const Tensor state = optimizer.gather_state(name);
      if (by_parameter)
        add(fmt::format("state {} of ", name), state, arena.entries());
      else
        all.push_back({"", state});
    }
  }
  return all;
}

// What a rank tells the others.
struct Told {
  std::int32_t rank = 0;  // in the trainer's communicator
  std::int32_t holder = 0;
  std::uint64_t hash = 0;
};

template <class T>
std::vector<T> decode(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
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
  void run(Trainer& trainer) override { compare(trainer); }
  void before_save(Trainer& trainer) override { compare(trainer); }

 private:
  void compare(const Trainer& trainer);
  [[noreturn]] void fail_with(const Trainer& trainer, const std::vector<Told>& told,
                              const ReplicaComparison& found) const;
  std::string when(const Trainer& trainer) const;

  std::int64_t iterations_;
  std::optional<std::int64_t> equal_after_;  // the last iteration after which all were equal
};

void CheckReplicas::initialize(Trainer& trainer) {
  Communicator* const replicas = trainer.updater().replicas();
  if (replicas == nullptr || replicas->size() == 1) return;
  if (!replicas->exchanges_gradients())
    fail_everywhere(ErrorKind::usage,
                    "--check-replicas and --communicator {}: ranks that exchange no gradients have "
                    "different weights; leave one out",
                    replicas->name());
  const std::vector<int> holders = trainer.updater().optimizer().holders_of_weights();
  if (trainer.is_root() && std::ranges::count(holders, 0) == std::ssize(holders))
    log_warning(
        "--check-replicas has nothing to compare: all ranks of this machine read one copy of the "
        "weights (--node-weights private gives each its own)");
  compare(trainer);
}

void CheckReplicas::compare(const Trainer& trainer) {
  const Updater& updater = trainer.updater();
  Communicator* const replicas = updater.replicas();
  if (replicas == nullptr || replicas->size() == 1 || equal_after_ == updater.iteration()) return;
  const std::vector<int> holders = updater.optimizer().holders_of_weights();
  Told own;
  own.rank = trainer.communicator()->rank();
  own.holder = holders[static_cast<std::size_t>(replicas->rank())];
  for (const ReplicatedArray& array : arrays_of(updater, false))
    own.hash = hash_of(array.values, own.hash);

  std::vector<Told> told;
  std::vector<std::uint64_t> hashes;
  for (const Bytes& bytes : replicas->allgather_bytes(std::as_bytes(std::span(&own, 1)))) {
    told.push_back(decode<Told>(bytes).front());
    hashes.push_back(told.back().hash);
  }
  const ReplicaComparison found = compare_replicas(hashes, holders);
  if (!found.deviating.empty()) fail_with(trainer, told, found);
  equal_after_ = updater.iteration();
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

std::string CheckReplicas::when(const Trainer& trainer) const {
  const std::int64_t now = trainer.updater().iteration();
  if (!equal_after_) return fmt::format("before iteration {}", now + 1);
  return fmt::format("after iteration {} (after iteration {} all were equal)", now, *equal_after_);
}

void CheckReplicas::fail_with(const Trainer& trainer, const std::vector<Told>& told,
                              const ReplicaComparison& found) const {
  const std::vector<ReplicatedArray> arrays = arrays_of(trainer.updater(), true);
  std::vector<std::uint64_t> own;
  for (const ReplicatedArray& array : arrays) own.push_back(hash_of(array.values, 0));
  const auto all = trainer.updater().replicas()->allgather_bytes(std::as_bytes(std::span(own)));
  const auto of_first_rank = decode<std::uint64_t>(all.front());
  auto first = std::ssize(arrays);
  for (const Bytes& bytes : all) {
    const auto differs = std::ranges::mismatch(of_first_rank, decode<std::uint64_t>(bytes)).in1;
    first = std::min(first, differs - of_first_rank.begin());
  }

  std::vector<int> ranks;
  for (const int rank : found.deviating) ranks.push_back(told[static_cast<std::size_t>(rank)].rank);
  const std::string who = text_of_ranks(ranks, trainer.communicator()->topology().host_of);
  const std::string where = first < std::ssize(arrays)
                                ? ", first in " + arrays[static_cast<std::size_t>(first)].name
                                : "";
  if (found.has_majority)
    fail_everywhere(ErrorKind::disagreement,
                    "replicas differ {}: {} {} from the other {}{}; if memory is damaged there, "
                    "leave that machine out and continue from an earlier snapshot",
                    when(trainer), who, ranks.size() == 1 ? "deviates" : "deviate",
                    told.size() - ranks.size(), where);
  fail_everywhere(ErrorKind::disagreement,
                  "replicas differ {}: {} do not have the same weights, and none has those of a "
                  "majority{}; if memory is damaged, leave that machine out and continue from an "
                  "earlier snapshot",
                  when(trainer), who, where);
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

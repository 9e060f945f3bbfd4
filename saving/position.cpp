// The position of a run, and whether a run can go on from there; declared in state.hpp.
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "saving/model_file.hpp"
#include "saving/replica_set.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"
#include "saving/state.hpp"

namespace tasuki {
namespace {

// Values that Chainer's readers expect and that follow from the position.
void save_for_readers(const Serializer& serializer, const RunPosition& position,
                      std::int64_t steps_per_epoch) {
  const auto [epoch, step] = position.data;
  std::int64_t is_new_epoch = step == 0 && epoch > 0 ? 1 : 0;
  const auto done = static_cast<double>(epoch * steps_per_epoch + step);
  double previous = done > 0 ? (done - 1) / static_cast<double>(steps_per_epoch) : -1;
  serializer["iterator:main"]("is_new_epoch", is_new_epoch);
  serializer["iterator:main"]("previous_epoch_detail", previous);
}

// A step in the middle of an epoch means the same only if the epoch is dealt alike, on whatever
// number of ranks: the order of a shard's examples does not depend on them. An iteration of
// more or fewer batches would deal them to other updates, as another size of batches does.
std::string serialize_layout(const Serializer& serializer, const RunIdentity& run,
                             const EpochLayout& layout, std::int64_t steps_per_epoch,
                             std::int64_t step) {
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"examples", layout.examples},
      {"shards", layout.shards},
      {"global_batch", layout.global_batch},
      {"steps_per_epoch", steps_per_epoch},
  };
  std::string before, now;
  const auto note = [&](const char* name, std::int64_t stored, std::int64_t here) {
    if (stored == here) return;
    before += fmt::format("{}{} {}", before.empty() ? "" : ", ", name, stored);
    now += fmt::format("{}{} {}", now.empty() ? "" : ", ", name, here);
  };
  for (const auto& [name, here] : numbers) {
    std::int64_t stored = here;
    serializer(name, stored);
    note(name, stored, here);
  }
  // An iterator that deals to no shards may deal to the ranks.
  std::int64_t ranks = run.ranks;
  serializer("ranks", ranks);
  if (layout.shards == 0) note("ranks", ranks, run.ranks);
  // Snapshots of older versions lack these entries; they all had the same value then.
  const auto serialize_newer = [&](const char* name, std::int64_t here, std::int64_t then) {
    const bool is_there = !serializer.is_loading() || serializer.contains(name);
    std::int64_t stored = is_there ? here : then;
    if (is_there) serializer(name, stored);
    note(name, stored, here);
  };
  serialize_newer("batches_per_iteration", run.batches, 1);
  serialize_newer("bucket_steps", layout.bucket_steps, 0);
  if (before.empty()) return "";
  if (step != 0)
    fail_everywhere(ErrorKind::config,
                    "the snapshot is from step {} of an epoch with {}; this run has {}: resume "
                    "with the snapshot's settings, or from the end of an epoch",
                    step, before, now);
  return fmt::format("the snapshot's run had {}; this run has {}", before, now);
}

// Loading refuses another seed.
void serialize_progress(const Serializer& serializer, const RunIdentity& run,
                        RunPosition& position) {
  auto seed = static_cast<std::int64_t>(run.seed);
  serializer("seed", seed);
  if (static_cast<std::uint64_t>(seed) != run.seed)
    fail_everywhere(
        ErrorKind::config,
        "the snapshot's run had seed {}, this run has seed {}: resume with the same seed",
        static_cast<std::uint64_t>(seed), run.seed);
  serialize_count(serializer, "iteration", position.iteration);
  // So that the product of epochs and steps is one, too.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const Serializer data = serializer["iterator:main"];
  serialize_count(data, "epoch", position.data.epoch, most);
  serialize_count(data, "step", position.data.step, most);
}

// As serialize_progress(). Also refuses another layout in the middle of an epoch. Returns what
// differs at the end of one, as a line; else nothing.
std::string serialize_progress_and_layout(const Serializer& serializer, const RunIdentity& run,
                                          const EpochLayout& layout, std::int64_t steps_per_epoch,
                                          RunPosition& position) {
  serialize_progress(serializer, run, position);
  if (!serializer.is_loading()) save_for_readers(serializer, position, steps_per_epoch);
  return serialize_layout(serializer["iterator:main"], run, layout, steps_per_epoch,
                          position.data.step);
}

}  // namespace

void serialize_position(const Serializer& serializer, const RunIdentity& run, RunPosition& position,
                        Iterator& iterator) {
  const std::string difference = serialize_progress_and_layout(
      serializer, run, iterator.layout(), iterator.steps_per_epoch(), position);
  if (!serializer.is_loading()) return;
  if (!difference.empty()) log_info("{}", difference);
  iterator.restore(position.data);
}

void check_models(const ResumeSource& from, const NamedOptimizers& optimizers,
                  const SavingRanks& ranks) {
  ranks.on_first([&] {
    TASUKI_CHECK(from.source, "{} is not open", from.path.string());
    for (const auto& [name, optimizer] : optimizers) {
      const std::string prefix = fmt::format("updater/model:{}/", name);
      const std::string difference = describe_difference(*from.source, prefix, optimizer->model());
      if (!difference.empty()) fail(ErrorKind::data, "{}", difference);
    }
  });
}

RunPosition check_resumable(const ResumeSource& from, const RunDescription& run,
                            const NamedOptimizers& optimizers, Communicator* communicator,
                            const ReplicaSet* replicas) {
  const SavingRanks ranks(communicator, replicas);
  check_models(from, optimizers, ranks);
  const Serializer updater = Serializer::loader(from.source.get(), ranks.members)["updater"];
  RunPosition position;
  if (run.layout)
    serialize_progress_and_layout(updater, run.identity, *run.layout, run.steps_per_epoch,
                                  position);
  else
    serialize_progress(updater, run.identity, position);
  for (const auto& [name, optimizer] : optimizers)
    serialize_kind(updater["optimizer:" + name], *optimizer);
  return position;
}

}  // namespace tasuki

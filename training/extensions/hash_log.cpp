#include "training/extensions/hash_log.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"
#include "training/step_hashes.hpp"

namespace tasuki {
namespace {

std::uint64_t hash_of_bytes(const Tensor& array) {
  const Tensor host = array.to(Device::cpu()).plain();
  return hash_bytes({static_cast<const std::byte*>(host.raw()), host.bytes()});
}

// How many updates each optimizer has made.
std::vector<std::int64_t> updates_of(const Updater& updater) {
  std::vector<std::int64_t> updates;
  for (const NamedOptimizer& each : updater.optimizers()) updates.push_back(each.optimizer->t());
  return updates;
}

// The hashes of this rank's part of the model, on the first rank of those that hold it.
class PartHashes {
 public:
  PartHashes(const Updater& updater, bool is_first) : updater_(updater), is_first_(is_first) {}

  // Collective among the ranks that hold the part. `has_gradients`: of each optimizer.
  std::vector<StepHashes::Group> collect(const std::vector<bool>& has_gradients);

 private:
  void add_gradients(StepHashes::Group& group, const Optimizer& optimizer);
  void add_states(StepHashes::Group& group, const Optimizer& optimizer);
  // Weights that no rank has as a whole, one after the other.
  void add_divided(StepHashes::Group& group, const ParameterArena& arena) const;
  // Of an array with the arena's offsets, in the model's order.
  void add(StepHashes::Group& group, const Tensor& array,
           const std::vector<ParameterArena::Entry>& entries, const std::string& suffix = "") const;

  const Updater& updater_;
  bool is_first_;
  std::string prefix_;
};

void PartHashes::add(StepHashes::Group& group, const Tensor& array,
                     const std::vector<ParameterArena::Entry>& entries,
                     const std::string& suffix) const {
  if (!is_first_) return;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    group.arrays.emplace_back(prefix_ + entry->path + suffix,
                              hash_of_bytes(ParameterArena::part(array, *entry)));
}

// Ranks have sums of only their slices.
void PartHashes::add_gradients(StepHashes::Group& group, const Optimizer& optimizer) {
  const ParameterArena& arena = optimizer.arena();
  const SliceOwners& owners = optimizer.states().owners();
  add(group, owners.gather(arena.gradients().slice(owners.own().begin, owners.own().end), 0),
      arena.entries());
}

void PartHashes::add_states(StepHashes::Group& group, const Optimizer& optimizer) {
  for (const std::string& name : optimizer.states().names())
    add(group, optimizer.states().gather(name, 0), optimizer.arena().entries(), '/' + name);
}

void PartHashes::add_divided(StepHashes::Group& group, const ParameterArena& arena) const {
  const std::vector<ParameterArena::Entry>& entries = arena.entries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const Tensor values = entry->parameter->read_value();
    if (is_first_) group.arrays.emplace_back(prefix_ + entry->path, hash_of_bytes(values));
  }
}

std::vector<StepHashes::Group> PartHashes::collect(const std::vector<bool>& has_gradients) {
  StepHashes::Group buffers{"buffers", {}}, gradients{"gradients", {}}, weights{"weights", {}},
      states{"states", {}};
  const NamedOptimizers optimizers = updater_.optimizers();
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const auto& [name, optimizer] = optimizers[i];
    prefix_ = optimizers.size() > 1 ? name + '/' : "";
    if (is_first_)
      for (const auto& [path, buffer] : optimizer->model().buffers())
        buffers.arrays.emplace_back(prefix_ + path, hash_of_bytes(*buffer));
    if (has_gradients[i]) add_gradients(gradients, *optimizer);
    const ParameterArena& arena = optimizer->arena();
    if (optimizer->divides_weights())
      add_divided(weights, arena);
    else
      add(weights, arena.values(), arena.entries());
    add(weights, arena.values(), arena.frozen());
    add_states(states, *optimizer);
  }
  std::vector<StepHashes::Group> groups;
  for (StepHashes::Group* group : {&buffers, &gradients, &weights, &states})
    if (!group->arrays.empty()) groups.push_back(std::move(*group));
  return groups;
}

// Adds what the first rank of another part has sent.
void add_part(std::vector<StepHashes::Group>& all, const StepHashes& part, int number) {
  for (const StepHashes::Group& group : part.groups) {
    auto found = std::ranges::find(all, group.name, &StepHashes::Group::name);
    if (found == all.end()) found = all.insert(all.end(), {group.name, {}});
    for (const auto& [path, hash] : group.arrays)
      found->arrays.emplace_back(fmt::format("part{}/{}", number, path), hash);
  }
}

class HashLog final : public Extension {
 public:
  explicit HashLog(HashLogSettings settings) : settings_(std::move(settings)) {}

  std::string default_name() const override { return "HashLog"; }
  // Before what changes buffers, and before a loss that is not finite ends the run.
  int priority() const override { return priority_writer + 2; }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void before_save(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  void on_error(Trainer& trainer) override;
  void serialize(const Serializer& serializer) override;

  // After all that the iteration does: the next one's update is one more.
  void note_updates(const Trainer& trainer) { updates_ = updates_of(trainer.updater()); }

 private:
  void note_gradients(const Trainer& trainer);
  void add_line(Trainer& trainer, bool is_of_end);
  // On rank 0.
  void write(const Trainer& trainer);
  void write_or_warn(const Trainer& trainer);

  HashLogSettings settings_;
  std::vector<std::int64_t> updates_;
  std::vector<bool> has_gradients_;   // of each optimizer, in the last iteration
  std::optional<std::int64_t> done_;  // the last iteration of this process
  std::int64_t hashed_ = 0;           // the last iteration with a line
  std::optional<HashFile> file_;      // on rank 0
  HashMark saved_;
  bool is_failing_ = false, has_lost_ = false;
};

void HashLog::initialize(Trainer& trainer) {
  note_updates(trainer);
  done_.reset();
  const bool is_over = trainer.is_over();
  const auto open = [&] {
    file_.emplace(trainer.out() / hashes_name, trainer.updater().iteration(), is_over, saved_);
    file_->flush(trainer.out() / hashes_name);
    return Bytes{};
  };
  if (trainer.communicator() != nullptr)
    run_on_root(*trainer.communicator(), 0, open);
  else
    open();
}

void HashLog::note_gradients(const Trainer& trainer) {
  const std::vector<std::int64_t> now = updates_of(trainer.updater());
  has_gradients_.resize(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) has_gradients_[i] = now[i] != updates_.at(i);
}

void HashLog::run(Trainer& trainer) {
  done_ = trainer.updater().iteration();
  note_gradients(trainer);
  if (*done_ % settings_.every == 0) add_line(trainer, false);
}

void HashLog::add_line(Trainer& trainer, bool is_of_end) {
  constexpr std::int64_t most_waiting = std::int64_t{64} << 20;
  const Updater& updater = trainer.updater();
  Communicator* const all = trainer.communicator();
  const Communicator* const replicas = updater.replicas();
  StepHashes step{.iteration = updater.iteration(), .is_of_end = is_of_end};
  hashed_ = step.iteration;

  Observation own;
  own.add_value_of(trainer.observation(), settings_.loss);
  step.loss = own.over_ranks(all).mean(settings_.loss);
  if (step.loss) step.loss_hash = hash_bytes(std::as_bytes(std::span(&*step.loss, 1)));
  const bool is_first = replicas == nullptr || replicas->rank() == 0;
  step.groups = PartHashes(updater, is_first).collect(has_gradients_);

  if (all != nullptr && replicas != nullptr && replicas->size() < all->size()) {
    const std::vector<Bytes> lines =
        gather_bytes(*all, text_to_bytes(is_first ? step.line() : std::string()));
    step.groups.clear();
    int number = 0;
    for (const Bytes& line : lines)
      if (!line.empty())
        add_part(step.groups, StepHashes::parse(bytes_to_text(line), "another rank's hashes"),
                 number++);
  }
  if (!trainer.is_root()) return;
  if (file_->waiting() < most_waiting)
    file_->add(step);
  else if (!std::exchange(has_lost_, true))
    log_warning("{}: {} MiB wait in memory, and hashes from iteration {} on are lost",
                (trainer.out() / hashes_name).string(), most_waiting >> 20, step.iteration);
  if (!is_of_end) write_or_warn(trainer);
}

void HashLog::write(const Trainer& trainer) {
  trainer.restore_output();
  file_->flush(trainer.out() / hashes_name);
}

void HashLog::write_or_warn(const Trainer& trainer) {
  try {
    write(trainer);
    if (std::exchange(is_failing_, false))
      log_warning("{} can be written again", (trainer.out() / hashes_name).string());
    has_lost_ = false;
  } catch (const Error& error) {
    if (!std::exchange(is_failing_, true)) log_warning("{}; training continues", error.what());
  }
}

void HashLog::before_save(Trainer& trainer) {
  if (!trainer.is_root()) return;
  write_or_warn(trainer);
  if (is_failing_) return;
  try {
    file_->sync();
    saved_ = file_->written();
  } catch (const Error& error) {
    log_warning("{}; training continues", error.what());
  }
}

void HashLog::finalize(Trainer& trainer) {
  const std::int64_t now = trainer.updater().iteration();
  if (done_ == now && hashed_ != now) {
    // Gradients that were still travelling may have been used by now.
    const std::vector<std::int64_t> updates = updates_of(trainer.updater());
    for (std::size_t i = 0; i < updates.size(); ++i)
      if (updates[i] != updates_.at(i)) has_gradients_[i] = true;
    add_line(trainer, true);
  }
  if (!trainer.is_root()) return;
  write(trainer);
  saved_ = file_->written();
}

void HashLog::on_error(Trainer& trainer) {
  if (file_) write(trainer);
}

void HashLog::serialize(const Serializer& serializer) {
  serialize_count(serializer, "iteration", saved_.iteration);
  std::string hash = hash_digits(saved_.hash);
  serializer("line", hash);
  const auto parsed = parse_hash(hash);
  if (!parsed)
    fail_everywhere(ErrorKind::data,
                    "the snapshot's line of --hash-every: expected a hash, found '{}'",
                    quoted_input(hash));
  saved_.hash = *parsed;
}

}  // namespace

void log_hashes(Trainer& trainer, HashLogSettings settings) {
  TASUKI_CHECK(settings.every > 0, "hashes every {} iterations", settings.every);
  HashLog& log = trainer.extend(std::make_unique<HashLog>(std::move(settings)));
  // Evaluations and saves may make an update between two steps.
  trainer.extend(make_extension(
      "NoteUpdates", [&log](Trainer& training) { log.note_updates(training); },
      std::numeric_limits<int>::min()));
}

}  // namespace tasuki

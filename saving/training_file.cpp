#include "saving/training_file.hpp"

#include <vector>

#include "core/activity.hpp"
#include "saving/local_steps_state.hpp"
#include "saving/npz.hpp"
#include "saving/replica_set.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"
#include "saving/state.hpp"

namespace tasuki {
namespace {

constexpr const char* names_entry = "names";

// The ranks that save and load together.
Communicator* ranks_of(const Optimizer& optimizer, const LocalSteps* local_steps) {
  return local_steps ? &local_steps->all() : optimizer.communicator();
}

void serialize_training(const Serializer& serializer, Optimizer& optimizer, ProgramNumbers& numbers,
                        LocalSteps* local_steps) {
  const NamedOptimizers named = {{"main", &optimizer}};
  serialize_optimizers(serializer["updater"], named, 0, local_steps);
  if (local_steps != nullptr) {
    const Serializer of_local_steps = serializer["updater"]["local_steps"];
    std::int64_t steps = local_steps->steps();
    if (!serializer.is_loading() || of_local_steps.contains("steps"))
      serialize_count(of_local_steps, "steps", steps);
    serialize_local_steps(of_local_steps, named, *local_steps, steps);
  }
  const Serializer program = serializer["program"];
  std::string names;
  for (const auto& [name, number] : numbers) names += name + '\n';
  program(names_entry, names);
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\n', begin);
    const std::string name = names.substr(begin, end - begin);
    program["numbers"](name, numbers[name]);
    begin = end == std::string::npos ? names.size() : end + 1;
  }
}

}  // namespace

void save_training(const std::filesystem::path& path, Optimizer& optimizer,
                   const ProgramNumbers& numbers, LocalSteps* local_steps) {
  const PhaseScope saving(Phase::saving);
  for (const auto& [name, number] : numbers)
    if (name.empty() || name.find_first_of("/\n") != std::string::npos)
      fail_everywhere(ErrorKind::usage,
                      "save_training: expected names of numbers without '/' and line ends, found "
                      "'{}'",
                      name);
  optimizer.flush();
  if (local_steps != nullptr) local_steps->synchronise();
  const SavingRanks ranks(ranks_of(optimizer, local_steps), nullptr);
  std::vector<NpzEntry> entries;
  ProgramNumbers own = numbers;
  serialize_training(Serializer::saver(entries, ranks.members), optimizer, own, local_steps);
  ranks.on_first([&] { write_npz(path, entries); });
}

ProgramNumbers load_training(const std::filesystem::path& path, Optimizer& optimizer,
                             LocalSteps* local_steps) {
  const PhaseScope restoring(Phase::restoring);
  const ResumeSource from = open_to_resume(path, ranks_of(optimizer, local_steps));
  const SavingRanks ranks(ranks_of(optimizer, local_steps), nullptr);
  check_models(from, {{"main", &optimizer}}, ranks);
  ProgramNumbers numbers;
  serialize_training(Serializer::loader(from.source.get(), ranks.members), optimizer, numbers,
                     local_steps);
  return numbers;
}

}  // namespace tasuki

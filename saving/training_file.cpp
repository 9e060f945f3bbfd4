#include "saving/training_file.hpp"

#include <vector>

#include "core/activity.hpp"
#include "saving/npz.hpp"
#include "saving/replica_set.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"
#include "saving/state.hpp"

namespace tasuki {
namespace {

constexpr const char* names_entry = "names";

void serialize_training(const Serializer& serializer, Optimizer& optimizer,
                        ProgramNumbers& numbers) {
  serialize_optimizers(serializer["updater"], {{"main", &optimizer}}, 0);
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
                   const ProgramNumbers& numbers) {
  const PhaseScope saving(Phase::saving);
  for (const auto& [name, number] : numbers)
    if (name.empty() || name.find_first_of("/\n") != std::string::npos)
      fail_everywhere(ErrorKind::usage,
                      "save_training: expected names of numbers without '/' and line ends, found "
                      "'{}'",
                      name);
  optimizer.flush();
  const SavingRanks ranks(optimizer.communicator(), nullptr);
  std::vector<NpzEntry> entries;
  ProgramNumbers own = numbers;
  serialize_training(Serializer::saver(entries, ranks.members), optimizer, own);
  ranks.on_first([&] { write_npz(path, entries); });
}

ProgramNumbers load_training(const std::filesystem::path& path, Optimizer& optimizer) {
  const PhaseScope restoring(Phase::restoring);
  const ResumeSource from = open_to_resume(path, optimizer.communicator());
  const SavingRanks ranks(optimizer.communicator(), nullptr);
  check_models(from, {{"main", &optimizer}}, ranks);
  ProgramNumbers numbers;
  serialize_training(Serializer::loader(from.source.get(), ranks.members), optimizer, numbers);
  return numbers;
}

}  // namespace tasuki

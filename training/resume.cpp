#include "training/resume.hpp"

#include <sstream>
#include <string>

#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "saving/replica_set.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"
#include "saving/state.hpp"
#include "training/trainer.hpp"

namespace tasuki {

void resume(const std::filesystem::path& path, Trainer& trainer, const ReplicaSet* replicas) {
  const PhaseScope restoring(Phase::restoring);
  resume(open_to_resume(path, trainer.communicator(), replicas), trainer, replicas);
}

void resume(const ResumeSource& from, Trainer& trainer, const ReplicaSet* replicas) {
  const PhaseScope restoring(Phase::restoring);
  const SavingRanks ranks(trainer.communicator(), replicas);
  check_models(from, trainer.updater().optimizers(), ranks);
  trainer.serialize(Serializer::loader(from.source.get(), ranks.members));
  trainer.note_saved(from.path);
}

bool resume_newest(Trainer& trainer) {
  Communicator* const all = trainer.communicator();
  // By their names in the folder, whose path may be another one for other ranks.
  const auto list = [&] {
    std::string names;
    for (const SavedState& each : saved_states_in(trainer.out()))
      names += each.path.lexically_relative(trainer.out()).string() + '\n';
    return text_to_bytes(names);
  };
  const Bytes sent = all ? run_on_root(*all, 0, list) : list();
  SavedStateList found{{}, /*is_of_folder=*/true};
  std::istringstream names{std::string(bytes_to_text(sent))};
  for (std::string name; std::getline(names, name);) found.paths.push_back(trainer.out() / name);
  if (found.paths.empty()) return false;
  resume(open_first_intact(found, /*flag=*/"", 1, all), trainer);
  return true;
}

}  // namespace tasuki

// Resuming a training from checkpoints and snapshots. Call one of these functions after all
// extensions are attached and before Trainer::run().
#pragma once

#include <filesystem>

namespace tasuki {

class ReplicaSet;
struct ResumeSource;
class Trainer;

// Resumes from a checkpoint's folder, or from a snapshot. Collective: rank 0 reads and sends to the
// others. Throws the same error on all ranks if the file is damaged, is of another model, optimizer
// or seed, or was saved in the middle of an epoch with other shards or global batches. With replica
// sets: `path` without a suffix.
void resume(const std::filesystem::path& path, Trainer& trainer,
            const ReplicaSet* replicas = nullptr);
// Resumes from a source that was opened before. Collective.
void resume(const ResumeSource& from, Trainer& trainer, const ReplicaSet* replicas = nullptr);
// Resumes from the newest intact checkpoint or snapshot_iter_<number> in the trainer's output
// folder (saved_states_in). Damaged ones are skipped with a warning. An error if all are damaged,
// or if one cannot be read for another reason (is_damage), because it may be intact. Returns false
// if there is none. Not for models on several ranks. Collective.
bool resume_newest(Trainer& trainer);

}  // namespace tasuki

#include "program/flags/batch_sizes.hpp"

#include "core/error.hpp"
#include "core/range.hpp"

namespace tasuki::program {

std::int64_t global_batch(const TrainingSettings& settings, int ranks) {
  const std::int64_t together = settings.global_batch.value_or(settings.batchsize * ranks);
  // With --reproducible, shards may be empty.
  if (together < ranks && !settings.reproducible)
    fail_everywhere(ErrorKind::usage,
                    "--global-batch: expected at least {} (one example per rank), found {}", ranks,
                    together);
  return together;
}

std::int64_t examples_of_update(const TrainingSettings& settings, int ranks) {
  return global_batch(settings, ranks) * settings.accumulate;
}

std::int64_t largest_rank_batch(const TrainingSettings& settings, int ranks) {
  return part_of(global_batch(settings, ranks), ranks, 0).size();
}

std::int64_t largest_pass(const TrainingSettings& settings, int ranks) {
  return settings.reproducible
             ? part_of(global_batch(settings, ranks), settings.shards.value(), 0).size()
             : largest_rank_batch(settings, ranks);
}

}  // namespace tasuki::program

// ShardedStep: divides an optimizer's steps into shards, so that results have the same bits however
// the shards are divided among ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "optimizer/shard_sums.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// The running statistics of a model in steps of several shards. Each shard begins with those of the
// step before, and the step's are the mean of what the shards made of them, weighted by their
// examples: one update of a moving average. A buffer that no shard changes keeps its bits. Buffers
// of integers, which count updates, change as they do in one shard.
class ShardStatistics {
 public:
  // Collective if `communicator` is not null. `sources`: what each rank brings. Buffers that are
  // neither float32 nor int64 are a usage error.
  ShardStatistics(const Module& model, Communicator* communicator, const ShardSources& sources);

  void begin_step();
  void begin_shard();                     // after the first
  void end_shard(std::int64_t examples);  // 0: the shard has none
  // Sums over all ranks and writes the buffers. Collective.
  void finish();
  // The buffers are those of the step before.
  void give_up() const { restore(); }

 private:
  void restore() const;

  std::vector<Tensor> buffers_, before_;
  Communicator* communicator_;
  ShardSources sources_;
  std::int64_t count_;  // of elements, and one for the examples
  Tensor memory_;
  std::unique_ptr<ShardSums> sums_;
  int exchanges_ = 0;
};

class ShardedStep {
 public:
  explicit ShardedStep(const TrainedModel& trained) : trained_(trained) {}
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  // Whether steps are divided (TrainedModel::shards).
  bool is_on() const { return trained_.shards > 0; }
  // After a new arena was made. Collective.
  void follow_arena();

  // --- a step, on this rank ---
  // As Optimizer::begin_shard().
  void begin_shard(std::int64_t shard);
  // Before a backward pass of the shard. Its gradients are overwritten by the first one that has
  // examples, and added to by others.
  void begin_pass(std::int64_t examples);
  // Ends the last shard. The arena then has what this rank brings to the sums over all ranks.
  void finish();
  // After the gradients were exchanged. Collective.
  void finish_statistics();
  // Drops the step.
  void give_up();

 private:
  void check() const;
  void end_shard();

  const TrainedModel& trained_;
  std::unique_ptr<ShardSums> gradients_;
  std::unique_ptr<ShardStatistics> statistics_;  // null: the model has no buffers
  std::optional<std::int64_t> shard_;            // under way
  std::int64_t examples_ = 0;                    // of it
};

}  // namespace tasuki

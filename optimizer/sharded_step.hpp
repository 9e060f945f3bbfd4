// ShardedStep: divides an optimizer's steps into shards, so that results have the same bits however
// the shards are divided among ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "optimizer/product_sums.hpp"
#include "optimizer/replica.hpp"
#include "optimizer/shard_sums.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// The running statistics of a model in steps of several shards. Each shard begins with those of the
// step before, and the step's are the mean of what the shards made of them, weighted by their
// examples: one update of a moving average. A buffer that no shard changes keeps its bits. Buffers
// of integers, which count updates, change as they do in one shard.
class ShardStatistics {
 public:
  // Collective if `communicator` is not null. `sources`: what each rank brings; `own`: this one.
  // Buffers that are neither float32 nor int64 are a usage error.
  ShardStatistics(const Module& model, Communicator* communicator, const ShardSources& sources,
                  std::vector<Range> own);

  // Copies of the model with which further threads compute shards; thread 0 uses the model.
  void set_copies(std::span<Module* const> copies);
  void begin_step();
  void begin_shard(std::size_t thread) const;
  void end_shard(std::size_t thread, std::int64_t examples);  // 0: the shard has none
  // Sums over all ranks and writes the buffers. Collective.
  void finish();
  // The buffers are those of the step before.
  void give_up() const { begin_shard(0); }

 private:
  std::vector<std::vector<Tensor>> buffers_;  // of each thread
  std::vector<Tensor> before_;
  Communicator* communicator_;
  ShardSources sources_;
  std::vector<Range> own_;
  std::int64_t count_;  // of elements, and one for the examples
  Tensor memory_;
  std::unique_ptr<ThreadSums> sums_;
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
  // As Optimizer::set_copies().
  void set_copies(std::vector<Module*> copies, SpreadUpdate spread);
  std::size_t threads() const { return copies_.size() + 1; }
  // The shards of this rank, and of one of its threads.
  Range shards() const { return gradients_->shards(); }
  Range shards_of(std::size_t thread) const { return gradients_->of(thread).shards(); }
  const SpreadUpdate& spread() const { return spread_; }

  // --- a step, on this rank ---
  // With copies, before their threads begin: drops what a failed step has left, and the copies
  // follow the arena.
  void begin_step();
  // Makes the copies read the arena's weights, if they do not yet.
  void tie_copies();
  // As Optimizer::begin_shard().
  void begin_shard(std::int64_t shard);
  // Before a backward pass of the thread's shard. Its gradients are overwritten by the first one
  // that has examples, and added to by others.
  void begin_pass(std::size_t thread, std::int64_t examples);
  // What a copy's backward pass ends at, in the order of the arena's entries.
  const std::vector<ParameterArena::Entry>& entries_of(std::size_t thread) const;
  // What a backward pass of the thread's shard leaves for the end of the step.
  LateProducts* late_products(std::size_t thread) { return products_.at(thread).get(); }
  // The loss of a pass of a further thread, for losses().
  void note_loss(std::size_t thread, const Tensor& loss);
  // The losses of the step's passes in further threads.
  std::vector<Tensor> losses() const;
  // With one thread, after begin_pass() of the last pass, if is_last_pass(): the gradients may then
  // be exchanged part by part, each after finish_part() of its parameters. finish() does the rest.
  bool is_last_pass() const;
  void begin_parts();
  void finish_part(Parameter& parameter);
  // In the thread, after its last shard.
  void end_thread(std::size_t thread);
  // In one thread, when all have ended. The arena then has what this rank brings to the sums over
  // all ranks.
  void finish();
  // After the gradients were exchanged. Collective.
  void finish_statistics();
  // Drops the step. With copies, after their threads have ended.
  void give_up();

 private:
  // What a thread computes with; no other thread uses it meanwhile.
  struct Thread {
    std::optional<std::int64_t> shard;  // under way
    std::int64_t examples = 0;          // of it
    std::vector<Tensor> losses;         // of the step; of further threads
  };
  void check() const;
  void divide();
  void begin_products();
  static void clear_root(const ParameterArena& arena, const Tensor& root);
  void clear_further_notices() const;
  void point_gradients_at(std::size_t thread, const Tensor& array) const;
  void end_shard(std::size_t thread);

  const TrainedModel& trained_;
  std::vector<Module*> copies_;
  SpreadUpdate spread_;
  std::vector<Replica> replicas_;  // of the copies
  std::vector<Thread> threads_ = std::vector<Thread>(1);
  // The entries whose sums are not final yet, by their parameters, if the last shard is added part
  // by part.
  std::optional<std::unordered_map<const Parameter*, const ParameterArena::Entry*>> missing_;
  std::unique_ptr<ThreadSums> gradients_;
  std::vector<std::unique_ptr<ProductSums>> products_;  // of each thread
  std::unique_ptr<ShardStatistics> statistics_;         // null: the model has no buffers
};

}  // namespace tasuki

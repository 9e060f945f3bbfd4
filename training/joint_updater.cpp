#include "training/joint_updater.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "training/named_examples.hpp"

namespace tasuki {

JointUpdater::JointUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers,
                           LossesFunction losses, Settings settings)
    : BatchUpdater(std::move(iterator), std::move(optimizers), std::move(settings)),
      losses_(std::move(losses)) {
  const NamedOptimizers all = this->optimizers();
  // The last one's backward pass frees what the losses share.
  for (const NamedOptimizer& each : all)
    each.optimizer->keep_graphs(each.optimizer != all.back().optimizer);
  // A step is left out as a whole.
  const StepGuard& first = all.front().optimizer->guard();
  for (const NamedOptimizer& each : all)
    if (first.skips_non_finite() && each.optimizer->guard().skips_non_finite())
      each.optimizer->guard().skip_with(first);
}

void JointUpdater::update(Observation& observation) {
  const NamedOptimizers all = optimizers();
  AccumulatedBatches batches = next_batches();
  if (has_threads()) {
    run_shards(batches, observation,
               [&](const Batch& batch, RandomKeys& random, Observation& seen) {
                 const std::vector<Variable> losses = forward(batch, random, seen);
                 for (std::size_t i = 0; i < all.size(); ++i)
                   all[i].optimizer->backward(losses[i], batch.weight());
               });
    return finish(batches);
  }
  while (!batches.is_last()) {
    const Batch next = batches.next();
    begin_shard(batches);
    run_on_device(next, batches, observation, [&](const Batch& batch, Observation& seen) {
      const std::vector<Variable> losses = forward(batch, batches.random(), seen);
      if (!batches.is_last()) {
        for (std::size_t i = 0; i < all.size(); ++i)
          all[i].optimizer->backward(losses[i], batch.weight());
        return;
      }
      std::vector<std::int64_t> examples;
      for (std::size_t i = 0; i < all.size(); ++i)
        examples.push_back(all[i].optimizer->backward_and_exchange(losses[i], batch.weight(),
                                                                   batches.global_weight()));
      for (std::size_t i = 0; i < all.size(); ++i) all[i].optimizer->update(examples[i]);
    });
  }
  finish(batches);
}

// One pass inside forward() of all optimizers, which every rank calls. Ranks without examples take
// part in the pass if any of the models communicates.
std::vector<Variable> JointUpdater::forward(const Batch& batch, RandomKeys& random,
                                            Observation& seen) {
  const NamedOptimizers all = optimizers();
  std::vector<Variable> losses(all.size());
  const auto takes_part = [&](const NamedOptimizer& each) {
    return each.optimizer->step_exchange().takes_part(batch.weight());
  };
  std::function<Variable(std::size_t)> pass = [&](std::size_t i) {
    if (i == all.size()) {
      if (std::ranges::any_of(all, takes_part)) losses = losses_of(batch, random, seen);
      return Variable();
    }
    const auto inner = [&] {
      pass(i + 1);
      return losses[i];
    };
    return all[i].optimizer->forward(inner, batch.weight(), /*always=*/true);
  };
  pass(0);
  return losses;
}

std::vector<Variable> JointUpdater::losses_of(const Batch& batch, RandomKeys& random,
                                              Observation& seen) {
  const RandomScope scope(random);
  seen.clear();  // of a pass that is now repeated
  std::vector<Variable> losses = naming_examples(batch, [&] { return losses_(batch, seen); });
  report_losses(losses, batch, seen);
  return losses;
}

}  // namespace tasuki

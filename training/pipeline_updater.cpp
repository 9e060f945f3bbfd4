#include "training/pipeline_updater.hpp"

#include <utility>

#include "training/named_examples.hpp"

namespace tasuki {

PipelineUpdater::PipelineUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 LossFunction loss, MicroBatches micro_batches,
                                 const Settings& settings)
    : BatchUpdater(std::move(iterator), {{"main", &optimizer}}, settings),
      loss_(std::move(loss)),
      micro_batches_(std::move(micro_batches)),
      random_(settings.seed) {
  optimizer.keep_graphs(false);
}

void PipelineUpdater::update(Observation& observation) {
  AccumulatedBatches batches = next_batches();
  while (!batches.is_last()) {
    const Batch next = batches.next();
    run_on_device(next, batches, observation, [&](const Batch& batch, Observation& seen) {
      run_passes(batch, seen);
      if (batches.is_last()) optimizer().update(optimizer().exchange(batches.global_weight()));
    });
  }
  finish(batches);
}

void PipelineUpdater::run_passes(const Batch& batch, Observation& seen) {
  const auto examples_of = [&](std::int64_t micro_batch) {
    const Range part = part_of(batch.size(), micro_batches_.count, micro_batch);
    return batch.slice(part.begin, part.end);
  };
  const auto forward = [&](std::int64_t micro_batch) {
    const Batch examples = examples_of(micro_batch);
    RandomKeys& random = random_.of(micro_batch);
    random.follow(examples.epoch(), examples.ids());
    Observation found;
    Variable loss = optimizer().forward(
        [&] {
          const RandomScope scope(random);
          found.clear();  // of a pass that is now repeated
          Variable mean = naming_examples(examples, [&] { return loss_(examples, found); });
          report_losses({mean}, examples, found);
          return mean;
        },
        examples.weight(), /*always=*/true);
    seen.add(found);
    return loss;
  };
  const auto backward = [&](std::int64_t micro_batch, const Variable& loss) {
    optimizer().backward(loss, examples_of(micro_batch).weight());
  };
  micro_batches_.run(forward, backward);
}

}  // namespace tasuki

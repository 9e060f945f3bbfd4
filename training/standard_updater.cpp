#include "training/standard_updater.hpp"

#include <utility>

#include "training/named_examples.hpp"

namespace tasuki {

StandardUpdater::StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 LossFunction loss, Settings settings)
    : BatchUpdater(std::move(iterator), {{"main", &optimizer}}, std::move(settings)),
      loss_(std::move(loss)) {
  this->optimizer().keep_graphs(false);
}

void StandardUpdater::update(Observation& observation) {
  AccumulatedBatches batches = next_batches();
  if (has_threads()) {
    run_shards(batches, observation,
               [&](const Batch& batch, RandomKeys& random, Observation& seen) {
                 optimizer().backward(forward(batch, random, seen), batch.weight());
               });
    return finish(batches);
  }
  while (!batches.is_last()) {
    const Batch next = batches.next();
    begin_shard(batches);
    run_on_device(next, batches, observation, [&](const Batch& batch, Observation& seen) {
      const Variable loss = forward(batch, batches.random(), seen);
      if (!batches.is_last()) {
        optimizer().backward(loss, batch.weight());
        return;
      }
      const std::int64_t examples_of_all =
          optimizer().backward_and_exchange(loss, batch.weight(), batches.global_weight());
      optimizer().update(examples_of_all);
    });
  }
  finish(batches);
}

Variable StandardUpdater::forward(const Batch& batch, RandomKeys& random, Observation& seen) {
  return optimizer().forward(
      [&] {
        const RandomScope scope(random);
        seen.clear();  // of a pass that is now repeated
        Variable mean = naming_examples(batch, [&] { return loss_(batch, seen); });
        report_losses({mean}, batch, seen);
        return mean;
      },
      batch.weight());
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    Classifier::Result result = model(Variable(batch["x"].to(device)), batch["t"].to(device));
    report.add_sum("accuracy", result.correct, result.counted);
    return result.loss;
  };
}

}  // namespace tasuki

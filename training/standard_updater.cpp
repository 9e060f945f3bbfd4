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
  while (!batches.is_last()) {
    const Batch next = batches.next();
    begin_shard(batches);
    run_on_device(next, batches, observation, [&](const Batch& batch, Observation& seen) {
      const std::int64_t examples = batch.weight();
      const Variable loss = optimizer().forward(
          [&] {
            const RandomScope random(batches.random());
            seen.clear();  // of a pass that is now repeated
            Variable mean = naming_examples(batch, [&] { return loss_(batch, seen); });
            if (reports_loss(batch)) seen.add_mean("loss", mean.value(), examples);
            return mean;
          },
          examples);
      if (!batches.is_last()) {
        optimizer().backward(loss, examples);
        return;
      }
      const std::int64_t examples_of_all =
          optimizer().backward_and_exchange(loss, examples, batches.global_weight());
      optimizer().update(examples_of_all);
    });
  }
  finish(batches);
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

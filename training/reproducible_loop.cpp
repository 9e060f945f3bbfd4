#include "training/reproducible_loop.hpp"

#include <optional>

#include "core/error.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu_thread_scope.hpp"
#include "training/named_examples.hpp"

namespace tasuki {

ReproducibleLoop::ReproducibleLoop(Optimizer& optimizer, const Settings& settings)
    : optimizer_(optimizer), settings_(settings), random_(settings.seed) {
  set_cpu_threads(1);
  set_conv_algorithm(ConvAlgorithm::by_shape);
  optimizer.set_shards(settings.shards);
}

ScatterOptions ReproducibleLoop::scatter() const {
  return {.shards = static_cast<int>(settings_.shards)};
}

ShareIteratorOptions ReproducibleLoop::batches(std::int64_t global_batch) const {
  return {
      .global_batch = global_batch, .shuffle = true, .seed = settings_.seed, .marks_shards = true};
}

void ReproducibleLoop::update(const Batch& batch, const LossFunction& loss, Observation& seen) {
  const Range shards = optimizer_.own_shards();
  if (std::ssize(batch.shards()) != shards.size())
    fail(ErrorKind::usage,
         "a batch says which examples are of which of {} shards, expected {}; use a ShareIterator "
         "with ReproducibleLoop::batches() and a share of ReproducibleLoop::scatter()",
         batch.shards().size(), shards.size());
  StepScope step;
  std::int64_t examples = 0;
  for (std::int64_t i = 0; i < shards.size(); ++i) {
    const Batch part = batch.shard(static_cast<std::size_t>(i));
    optimizer_.begin_shard(shards.begin + i);
    RandomKeys& random = random_.of(i);
    random.follow(part.epoch(), part.ids());
    Observation found;
    const Variable mean = optimizer_.forward(
        [&] {
          const RandomScope scope(random);
          found.clear();  // of a pass that is now repeated
          return naming_examples(part, [&] { return loss(part, found); });
        },
        part.weight());
    if (part.weight() > 0) found.add_mean("loss", mean.value(), part.weight());
    if (i + 1 < shards.size())
      optimizer_.backward(mean, part.weight());
    else
      examples = optimizer_.backward_and_exchange(mean, part.weight());
    seen.add(found);
  }
  optimizer_.update(examples);
  step.succeeded();
}

}  // namespace tasuki

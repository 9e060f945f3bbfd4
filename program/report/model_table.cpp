#include "program/report/model_table.hpp"

#include <string>

#include "communicator/bytes.hpp"
#include "communicator/text_bytes.hpp"
#include "nn/model_summary.hpp"
#include "nn/random.hpp"
#include "nn/value_memory.hpp"
#include "program/report/summary.hpp"
#include "training/batch_memory.hpp"

namespace tasuki::program {

void print_model_summary(const RankSetup& setup, const Module& model, const LossFunction& loss,
                         const SplitData& data) {
  const DatasetHeader examples = read_longest(data, *setup.communicator);
  const Batch batch = zero_batch(1, examples, setup.precision.activations, setup.device());
  const ModelSummary summary = summarize(model, [&] {
    const TrainingMode evaluating(false);
    const NoGrad no_graph;
    RandomKeys keys(0);
    keys.follow(0, batch.ids());
    const RandomScope random(keys);
    Observation unused;
    const UnreadValues unread;
    loss(batch, unused);
  });
  std::string text = summary.text();
  if (setup.grid->is_divided()) {
    const auto of_ranks = gather_bytes(setup.grid->model(), text_to_bytes(text), 0);
    text.clear();
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      text += fmt::format("Rank {}:\n{}", rank, bytes_to_text(of_ranks[rank]));
  }
  report_on_root(*setup.communicator,
                 "One example, forward pass of an evaluation (FLOPs: multiplications and additions "
                 "of products):\n" +
                     text);
}

}  // namespace tasuki::program

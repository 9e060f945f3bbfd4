// The metrics of train_seq2seq on test data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "training/bleu.hpp"
#include "training/extensions/generic_evaluator.hpp"

namespace tasuki::seq2seq {

// The sums for one batch or several.
struct Quality {
  double loss = 0;  // summed over words
  std::int64_t words = 0, sentences = 0, exact = 0;
  BleuCounts bleu;

  void add(const Quality& other);
};

// Adds the translations of a batch, without their ends. Target words that are not in the vocabulary
// never count as right.
void compare(const std::vector<std::vector<std::int32_t>>& translations, const Batch& batch,
             Quality& found);

// Observes "main/loss", "main/exact" (the share of sentences that are translated exactly) and with
// `with_bleu` "main/bleu" (training/bleu.hpp), all for greedy translations. Counts of words and
// sentences are summed over all ranks, so the values do not depend on the number of ranks; ranks
// whose `evaluate` finds nothing do not count.
std::unique_ptr<Extension> create_translation_evaluator(
    std::unique_ptr<Iterator> batches, std::function<Quality(const Batch& batch)> evaluate,
    bool with_bleu);

}  // namespace tasuki::seq2seq

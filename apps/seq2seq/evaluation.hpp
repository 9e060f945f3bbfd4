// What train_seq2seq reports of test data.
#pragma once

#include <memory>

#include "tasuki/models/seq2seq.hpp"
#include "tasuki/training/extensions/generic_evaluator.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki::seq2seq {

// Mean loss over the words of the targets that `batch` has; observes the words that are right,
// given those before ("accuracy").
LossFunction translation_loss(Seq2seq& model);

// Observes "main/loss", "main/exact" (the share of sentences that are translated exactly) and with
// `with_bleu` "main/bleu" (training/bleu.hpp), all of translations without beams. Numbers of words
// and sentences are added up over all ranks, so the values do not depend on how many there are.
std::unique_ptr<Extension> create_translation_evaluator(std::unique_ptr<Iterator> batches,
                                                        Seq2seq& model, LossFunction loss,
                                                        bool with_bleu);

}  // namespace tasuki::seq2seq

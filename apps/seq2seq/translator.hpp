// The model that train_seq2seq trains: whole, or a rank's part of it.
#pragma once

#include <functional>

#include "apps/seq2seq/evaluation.hpp"
#include "models/seq2seq.hpp"
#include "program/training_program.hpp"

namespace tasuki::seq2seq {

struct Translator {
  // The loss is the mean over a batch's target words. Observes the share of words that are right
  // given the words before ("accuracy").
  TrainingModel training;
  // The loss, and greedy translations compared with the targets.
  std::function<Quality(const Batch& batch)> evaluate;
};

Translator create_translator(const Seq2seqSizes& sizes);

// ChainerMN's seq2seq_mp1: the encoder on rank 0 of `model`, the decoder and the loss on rank 1. In
// each pass the encoder sends its last states, and gets their gradients in training. Both ranks see
// the same batches. Training and evaluation equal the whole model's up to rounding.
Translator create_part_of_translator(const Seq2seqSizes& sizes, Communicator& model);

}  // namespace tasuki::seq2seq

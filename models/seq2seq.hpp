// Translation of sequences by an encoder and a decoder (Sutskever, Vinyals and Le, "Sequence to
// sequence learning with neural networks", NIPS 2014): ChainerMN's example seq2seq.
#pragma once

#include <vector>

#include "tasuki/nn/embed_id.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/nn/n_step_rnn.hpp"

namespace tasuki {

// Children embed_x, embed_y, encoder, decoder (LSTMs with dropout between layers) and W, as in
// ChainerMN.
class Seq2seq : public Module {
 public:
  static constexpr std::int32_t eos = 0;  // ends a target sequence, and begins the decoder's input

  Seq2seq(std::int64_t layers, std::int64_t source_words, std::int64_t target_words,
          std::int64_t units, float dropout = 0.1F);

  // Scores of the next word after each word of y: (N U) x target words. x: N x T source ids, y: N x
  // U ids of the target that begin with eos; both padded, with their lengths (N int64).
  Variable forward(const Tensor& x, const Tensor& x_lengths, const Tensor& y,
                   const Tensor& y_lengths);

  // The most probable word at each place, without eos; at most `longest` words. Waits for the
  // device. To be called with NoGrad and TrainingMode(false).
  std::vector<std::vector<std::int32_t>> translate(const Tensor& x, const Tensor& x_lengths,
                                                   std::int64_t longest = 100);

 private:
  std::vector<Variable> encode(const Tensor& x, const Tensor& x_lengths);

  EmbedID embed_x_, embed_y_;
  NStepLSTM encoder_, decoder_;
  Linear w_;
};

}  // namespace tasuki

// Translation of sequences by an encoder and a decoder (Sutskever, Vinyals and Le, "Sequence to
// sequence learning with neural networks", NIPS 2014): ChainerMN's example seq2seq.
#pragma once

#include <utility>
#include <vector>

#include "nn/connection.hpp"
#include "nn/n_step_rnn.hpp"

namespace tasuki {

struct Seq2seqSizes {
  std::int64_t layers, source_words, target_words, units;
  float dropout = 0.1F;  // between layers
};

// Children embed_x and encoder.
class Seq2seqEncoder : public Module {
 public:
  explicit Seq2seqEncoder(const Seq2seqSizes& sizes);

  // The decoder's initial states, one value for each layer (NStepRNN::Result::states). x: N x T
  // source ids, padded, with their lengths (N int64).
  std::vector<Variable> encode(const Tensor& x, const Tensor& x_lengths);

 private:
  friend class Seq2seq;
  EmbedID embed_x_;
  NStepLSTM encoder_;
};

// Children embed_y, decoder and W.
class Seq2seqDecoder : public Module {
 public:
  static constexpr std::int32_t eos = 0;  // ends a target sequence, and begins the decoder's input

  explicit Seq2seqDecoder(const Seq2seqSizes& sizes);

  // Scores of the next word after each word of y: (N U) x target words. y: N x U ids of the target
  // that begin with eos, padded, with their lengths (N int64).
  Variable score(const std::vector<Variable>& states, const Tensor& y, const Tensor& y_lengths);

  // One word for each of N examples (N ids; eos first), from these states: scores of the next word
  // (N x target words), and the states after it.
  std::pair<Variable, std::vector<Variable>> step(const std::vector<Variable>& states,
                                                  const Tensor& words);

  // Greedy decoding: the most probable word at each place, without eos; at most `longest` words.
  // Finished sequences are no longer computed. Waits for the device. To be called with NoGrad and
  // TrainingMode(false).
  std::vector<std::vector<std::int32_t>> translate(const std::vector<Variable>& states,
                                                   std::int64_t longest = 100);

 private:
  friend class Seq2seq;
  EmbedID embed_y_;
  NStepLSTM decoder_;
  Linear w_;
};

// Encoder and decoder with the children of both, as in ChainerMN: embed_x, embed_y, encoder,
// decoder and W. Initial weights depend on paths, so either part alone starts with the same weights
// as here.
class Seq2seq : public Module {
 public:
  explicit Seq2seq(const Seq2seqSizes& sizes);

  Seq2seqEncoder& encoder() { return encoder_; }
  Seq2seqDecoder& decoder() { return decoder_; }

 private:
  Seq2seqEncoder encoder_;
  Seq2seqDecoder decoder_;
};

}  // namespace tasuki

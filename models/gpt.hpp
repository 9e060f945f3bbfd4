// A transformer that predicts the next symbol of a text (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019: GPT-2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nn/connection.hpp"
#include "nn/layer.hpp"
#include "nn/normalization.hpp"

namespace tasuki {

struct GptSettings {
  std::int64_t symbols = 256;
  std::int64_t layers = 4, heads = 4, width = 256;
  std::int64_t context = 128;  // the longest text that the model sees
  // GPT-2's published form: scores are products with the symbols' embeddings, which have no weights
  // of their own (tied weights), and GELU is approximated by tanh.
  bool is_gpt2 = false;
};

// Symbol and position embeddings, `layers` blocks of x += attention(norm(x)), x += perceptron(
// norm(x)), a last layer normalisation, and scores of all symbols. Initial values are GPT-2's:
// normal with standard deviation 0.02 (of layers that add to x: divided by sqrt(2 layers)), biases
// 0. Paths: embed/W, position/W, blocks/<i>/{norm1, qkv, attention, norm2, hidden, output}, norm,
// and unless they are tied scores/W. No dropout.
class Gpt : public Layer {
 public:
  // A usage error if the heads do not divide the width.
  explicit Gpt(const GptSettings& settings);

  // N x T symbols (int32 or int64), T up to the context, to N T x symbols scores of each one's next
  // symbol.
  Variable forward(const Variable& ids) override;
  const GptSettings& settings() const { return settings_; }

 private:
  friend class GptText;
  struct Positions : Module {
    Positions(std::int64_t context, std::int64_t width);
    Parameter& w;
  };
  struct Block : Module {
    explicit Block(const GptSettings& settings);
    LayerNorm norm1;
    Linear qkv, attention;
    LayerNorm norm2;
    Linear hidden, output;
  };
  struct Blocks : Module {
    explicit Blocks(const GptSettings& settings);
    std::vector<std::unique_ptr<Block>> all;
  };

  // The attention of a block, from queries, keys and values: N x T x 3 widths to N x T x width.
  using Attend = std::function<Variable(std::size_t block, const Variable& qkv)>;
  // The scores of symbols, the first of which is at this position of the text.
  Variable scores_of(const Variable& ids, std::int64_t position, const Attend& attend);

  GptSettings settings_;
  EmbedID embed_;
  Positions position_;
  Blocks blocks_;
  LayerNorm norm_;
  std::unique_ptr<Linear> scores_;  // null: tied
};

// A text that a transformer reads piece by piece. Keeps the keys and values of all attentions, so
// each further symbol costs one position. Results have no gradients.
class GptText {
 public:
  // The model must outlive this object and keep its weights.
  explicit GptText(Gpt& model) : model_(model) {}
  // Reads T >= 1 further symbols (int32 or int64), and returns the scores of the next one (1 x
  // symbols, on the model's device). More than the context holds is an error.
  Tensor read(const Tensor& ids);
  // The number of symbols read.
  std::int64_t length() const { return length_; }

 private:
  Tensor read_part(const Tensor& ids);
  Variable attend(std::size_t block, const Variable& qkv);

  Gpt& model_;
  std::int64_t length_ = 0;
  std::vector<Tensor> rows_;  // of each block, context x 3 widths: queries, keys and values
};

}  // namespace tasuki

// A transformer that predicts the next symbol of a text (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019: GPT-2).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tasuki/nn/embed_id.hpp"
#include "tasuki/nn/layer.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/nn/normalization.hpp"

namespace tasuki {

struct GptSettings {
  std::int64_t symbols = 256;
  std::int64_t layers = 4, heads = 4, width = 256;
  std::int64_t context = 128;  // the longest text that the model sees
};

// Symbol and position embeddings, `layers` blocks of x += attention(norm(x)), x += perceptron(
// norm(x)), a last layer normalisation, and scores of all symbols. Initial values are GPT-2's:
// normal with standard deviation 0.02 (of layers that add to x: divided by sqrt(2 layers)), biases
// 0. Paths: embed/W, position/W, blocks/<i>/{norm1, qkv, attention, norm2, hidden, output}, norm,
// scores/W. No dropout.
class Gpt : public Layer {
 public:
  // A usage error if the heads do not divide the width.
  explicit Gpt(const GptSettings& settings);

  // N x T symbols (int32 or int64), T up to the context, to N T x symbols scores of what follows
  // each of them.
  Variable forward(const Variable& ids) override;
  const GptSettings& settings() const { return settings_; }

 private:
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

  GptSettings settings_;
  EmbedID embed_;
  Positions position_;
  Blocks blocks_;
  LayerNorm norm_;
  Linear scores_;
};

}  // namespace tasuki

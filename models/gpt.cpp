#include "tasuki/models/gpt.hpp"

#include <cmath>
#include <string>

#include "tasuki/nn/function.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/add.hpp"
#include "tasuki/nn/functions/attention.hpp"
#include "tasuki/nn/functions/reshape.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

constexpr double deviation = 0.02;
constexpr float eps = 1e-5f;

// x (N x T x W) + the first T rows of w.
class AddPositions final : public Function {
 public:
  AddPositions(const Shape& x, const Shape& w) : x_(x), w_(w) {}
  const char* name() const override { return "add_positions"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    if (gradients.needed(1)) {
      const auto [dw, accumulate] = gradients.into(1, w_);
      const bool is_part = x_[1] < w_[0];
      if (is_part && !accumulate) dw.fill(0);
      const std::int64_t values = x_[1] * x_[2];
      backend(dy.device())
          .backward_bias(dy.reshape({x_[0], values}), dw.slice(0, x_[1]).reshape({values}),
                         accumulate || is_part);
      gradients.written(1);
    }
    if (gradients.needed(0)) gradients.add(0, dy);
  }

 private:
  Shape x_, w_;
};

Variable add_positions(const Variable& x, const Variable& w) {
  const Tensor rows = w.value_as(x.value().dtype()).slice(0, x.shape()[1]);
  const Tensor addend = rows.to(x.value().dtype());
  const Tensor y = x.value().clone();
  for (std::int64_t i = 0; i < x.shape()[0]; ++i)
    backend(y.device()).accumulate(y.slice(i, i + 1).reshape(addend.shape()), addend, 1);
  return Function::record(y, {x, w},
                          [&] { return std::make_unique<AddPositions>(x.shape(), w.shape()); });
}

Initializer weights() {
  return initializers::normal(deviation);
}

Initializer residual_weights(const GptSettings& settings) {
  return initializers::normal(deviation / std::sqrt(2.0 * static_cast<double>(settings.layers)));
}

const GptSettings& checked(const GptSettings& settings) {
  TASUKI_CHECK(settings.layers > 0 && settings.context > 0 && settings.heads > 0 &&
                   settings.width > 0 && settings.width % settings.heads == 0,
               "a transformer's width must be a multiple of its heads, found {} and {}",
               settings.width, settings.heads);
  return settings;
}

}  // namespace

Gpt::Positions::Positions(std::int64_t context, std::int64_t width)
    : w(add_parameter("W", {context, width}, weights())) {}

Gpt::Block::Block(const GptSettings& settings)
    : norm1(settings.width, eps),
      qkv(settings.width, 3 * settings.width, true, weights()),
      attention(settings.width, settings.width, true, residual_weights(settings)),
      norm2(settings.width, eps),
      hidden(settings.width, 4 * settings.width, true, weights()),
      output(4 * settings.width, settings.width, true, residual_weights(settings)) {
  add("norm1", norm1);
  add("qkv", qkv);
  add("attention", attention);
  add("norm2", norm2);
  add("hidden", hidden);
  add("output", output);
}

Gpt::Blocks::Blocks(const GptSettings& settings) {
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    all.push_back(std::make_unique<Block>(settings));
    add(std::to_string(i), *all.back());
  }
}

Gpt::Gpt(const GptSettings& settings)
    : settings_(checked(settings)),
      embed_(settings.symbols, settings.width, weights()),
      position_(settings.context, settings.width),
      blocks_(settings),
      norm_(settings.width, eps),
      scores_(settings.width, settings.symbols, false, weights()) {
  add("embed", embed_);
  add("position", position_);
  add("blocks", blocks_);
  add("norm", norm_);
  add("scores", scores_);
}

Variable Gpt::forward(const Variable& ids) {
  TASUKI_CHECK(ids.shape().rank() == 2 && ids.shape()[1] <= settings_.context,
               "a transformer with a context of {} symbols takes N x T of them, found {}",
               settings_.context, ids.shape().text());
  const std::int64_t items = ids.shape()[0], length = ids.shape()[1], width = settings_.width;
  const Shape rows = {items * length, width};  // activations are N T x width between attentions
  Variable x = reshape(add_positions(embed_(ids), position_.w), rows);
  for (const auto& block : blocks_.all) {
    const Variable qkv = reshape(block->qkv(block->norm1(x)), {items, length, 3 * width});
    const Variable seen = self_attention(qkv, {.heads = settings_.heads, .causal = true});
    x = x + block->attention(reshape(seen, rows));
    x = x + block->output(gelu(block->hidden(block->norm2(x))));
  }
  return scores_(norm_(x));
}

}  // namespace tasuki

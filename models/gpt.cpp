#include "models/gpt.hpp"

#include <cmath>
#include <string>

#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/sequences.hpp"
#include "nn/recompute.hpp"
#include "tensor/attention_operations.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr double deviation = 0.02;
constexpr float eps = 1e-5f;

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
      norm_(settings.width, eps) {
  add("embed", embed_);
  add("position", position_);
  add("blocks", blocks_);
  add("norm", norm_);
  if (settings.is_gpt2) return;
  scores_ = std::make_unique<Linear>(settings.width, settings.symbols, false, weights());
  add("scores", *scores_);
}

Variable Gpt::forward(const Variable& ids) {
  const F::AttentionSettings settings = {.heads = settings_.heads, .causal = true};
  return scores_of(ids, 0, [settings](std::size_t, const Variable& qkv) {
    return F::self_attention(qkv, settings);
  });
}

Variable Gpt::scores_of(const Variable& ids, std::int64_t position, const Attend& attend) {
  TASUKI_CHECK(ids.shape().rank() == 2 && position + ids.shape()[1] <= settings_.context,
               "a transformer with a context of {} symbols takes N x T of them, found {} after {}",
               settings_.context, ids.shape().text(), position);
  const std::int64_t items = ids.shape()[0], length = ids.shape()[1], width = settings_.width;
  const Shape rows = {items * length, width};  // activations are N T x width between attentions
  Variable positions = position_.w;
  if (length < settings_.context) positions = F::slice(positions, {{position, position + length}});
  Variable x = F::reshape(embed_(ids) + positions, rows);
  for (std::size_t i = 0; i < blocks_.all.size(); ++i) {
    Block& block = *blocks_.all[i];
    x = may_recompute(
        [this, attend, &block, i, items, length, width, rows](const Variable& input) {
          const Variable qkv =
              F::reshape(block.qkv(block.norm1(input)), {items, length, 3 * width});
          const Variable sum = block.attention.added_to(input, F::reshape(attend(i, qkv), rows));
          return block.output.added_to(sum, block.hidden.gelu(block.norm2(sum), settings_.is_gpt2));
        },
        x);
  }
  const Variable last = norm_(x);
  return scores_ != nullptr ? (*scores_)(last) : F::linear(last, embed_.weights(), Variable());
}

Tensor GptText::read(const Tensor& ids) {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  TASUKI_CHECK(ids.shape().rank() == 1 && ids.count() > 0,
               "a transformer reads a row of symbols, found {}", ids.shape().text());
  // After the first piece, symbols are read one by one, so that each sees all kept rows.
  if (length_ == 0) return read_part(ids);
  Tensor scores;
  for (std::int64_t i = 0; i < ids.count(); ++i) scores = read_part(ids.slice(i, i + 1));
  return scores;
}

Tensor GptText::read_part(const Tensor& ids) {
  const std::int64_t count = ids.count();
  const Variable x(ids.to(model_.device()).reshape({1, count}));
  const Tensor scores =
      model_
          .scores_of(x, length_,
                     [this](std::size_t block, const Variable& qkv) { return attend(block, qkv); })
          .value();
  length_ += count;
  return scores.slice(count - 1, count);
}

Variable GptText::attend(std::size_t block, const Variable& qkv) {
  const GptSettings& settings = model_.settings();
  const Tensor fresh = qkv.value().plain();
  const std::int64_t count = fresh.shape()[1], width = settings.width;
  if (block == rows_.size())
    rows_.push_back(Tensor::zeros({settings.context, 3 * width}, fresh.dtype(), fresh.device()));
  const Tensor& rows = rows_[block];
  rows.slice(length_, length_ + count).copy_from(fresh.reshape({count, 3 * width}));
  if (length_ == 0) return F::self_attention(qkv, {.heads = settings.heads, .causal = true});
  const Tensor seen = rows.slice(0, length_ + 1).reshape({1, length_ + 1, 3 * width});
  const std::int64_t head = width / settings.heads;
  return Variable(backend(fresh.device())
                      .attention()
                      .attention({fresh, 0}, {seen, width}, {seen, 2 * width},
                                 {.heads = settings.heads,
                                  .head_width = head,
                                  .scale = 1 / std::sqrt(static_cast<float>(head))})
                      .y);
}

}  // namespace tasuki

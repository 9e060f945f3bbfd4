#include "tasuki/models/seq2seq.hpp"

#include <algorithm>

#include "tasuki/nn/functions/reshape.hpp"

namespace tasuki {
namespace {

// N x T x units, row by row.
Variable rows(const Variable& y) {
  const Shape& shape = y.shape();
  return reshape(y, {shape[0] * shape[1], shape[2]});
}

std::vector<std::int32_t> largest_of_rows(const Tensor& scores) {
  const Tensor host = scores.plain().to(DType::float32).to(Device::cpu());
  const std::int64_t columns = host.shape()[1];
  std::vector<std::int32_t> found;
  for (std::int64_t i = 0; i < host.shape()[0]; ++i) {
    const float* const row = host.data<float>() + i * columns;
    found.push_back(static_cast<std::int32_t>(std::max_element(row, row + columns) - row));
  }
  return found;
}

}  // namespace

Seq2seq::Seq2seq(std::int64_t layers, std::int64_t source_words, std::int64_t target_words,
                 std::int64_t units, float dropout)
    : embed_x_(source_words, units),
      embed_y_(target_words, units),
      encoder_(layers, units, units, dropout),
      decoder_(layers, units, units, dropout),
      w_(units, target_words) {
  add("embed_x", embed_x_);
  add("embed_y", embed_y_);
  add("encoder", encoder_);
  add("decoder", decoder_);
  add("W", w_);
}

std::vector<Variable> Seq2seq::encode(const Tensor& x, const Tensor& x_lengths) {
  return encoder_(embed_x_(Variable(x)), x_lengths).states;
}

Variable Seq2seq::forward(const Tensor& x, const Tensor& x_lengths, const Tensor& y,
                          const Tensor& y_lengths) {
  const std::vector<Variable> states = encode(x, x_lengths);
  return w_(rows(decoder_(embed_y_(Variable(y)), y_lengths, states).y));
}

std::vector<std::vector<std::int32_t>> Seq2seq::translate(const Tensor& x, const Tensor& x_lengths,
                                                          std::int64_t longest) {
  const std::int64_t items = x.shape()[0];
  const Tensor ones = Tensor::full({items}, 1, DType::int64, x.device());
  std::vector<Variable> states = encode(x, x_lengths);
  std::vector<std::int32_t> words(static_cast<std::size_t>(items), eos);
  std::vector<std::vector<std::int32_t>> translations(words.size());
  std::vector<bool> has_ended(words.size(), false);
  for (std::int64_t step = 0; step < longest && !std::ranges::all_of(has_ended, std::identity());
       ++step) {
    const Tensor y = Tensor::from(std::span<const std::int32_t>(words), {items, 1}).to(x.device());
    auto decoded = decoder_(embed_y_(Variable(y)), ones, states);
    states = std::move(decoded.states);
    words = largest_of_rows(w_(rows(decoded.y)).value());
    for (std::size_t i = 0; i < words.size(); ++i) {
      has_ended[i] = has_ended[i] || words[i] == eos;
      if (!has_ended[i]) translations[i].push_back(words[i]);
    }
  }
  return translations;
}

}  // namespace tasuki

#include "models/seq2seq.hpp"

#include <algorithm>
#include <numeric>

#include "nn/functions/arrays.hpp"
#include "nn/recompute.hpp"
#include "nn/recurrent_steps.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

// N x T x units, row by row.
Variable rows(const Variable& y) {
  const Shape& shape = y.shape();
  return F::reshape(y, {shape[0] * shape[1], shape[2]});
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

Seq2seqEncoder::Seq2seqEncoder(const Seq2seqSizes& sizes)
    : embed_x_(sizes.source_words, sizes.units),
      encoder_(sizes.layers, sizes.units, sizes.units, sizes.dropout) {
  add("embed_x", embed_x_);
  add("encoder", encoder_);
}

std::vector<Variable> Seq2seqEncoder::encode(const Tensor& x, const Tensor& x_lengths) {
  return may_recompute(
      [this, x, x_lengths](const std::vector<Variable>&) {
        return encoder_(embed_x_(Variable(x)), x_lengths).states;
      },
      {});
}

Seq2seqDecoder::Seq2seqDecoder(const Seq2seqSizes& sizes)
    : embed_y_(sizes.target_words, sizes.units),
      decoder_(sizes.layers, sizes.units, sizes.units, sizes.dropout),
      w_(sizes.units, sizes.target_words) {
  add("embed_y", embed_y_);
  add("decoder", decoder_);
  add("W", w_);
}

Variable Seq2seqDecoder::score(const std::vector<Variable>& states, const Tensor& y,
                               const Tensor& y_lengths) {
  return may_recompute(
             [this, y, y_lengths](const std::vector<Variable>& before) {
               return std::vector{w_(rows(decoder_(embed_y_(Variable(y)), y_lengths, before).y))};
             },
             states)
      .front();
}

std::pair<Variable, std::vector<Variable>> Seq2seqDecoder::step(const std::vector<Variable>& states,
                                                                const Tensor& words) {
  const Tensor lengths = Tensor::full(words.shape(), 1, DType::int64, words.device());
  const Variable x = F::expand_dims(embed_y_(Variable(words)), 1);
  auto [y, next] = decoder_(x, lengths, states);
  return {w_(F::squeeze(y, 1)), std::move(next)};
}

std::vector<std::vector<std::int32_t>> Seq2seqDecoder::translate(
    const std::vector<Variable>& states, std::int64_t longest) {
  const std::int64_t items = states.at(0).shape()[0];
  const Device device = states[0].value().device();
  std::vector<std::vector<std::int32_t>> translations(static_cast<std::size_t>(items));
  if (items == 0) return translations;
  RecurrentSteps decoder(decoder_, states);
  // Of the unfinished sequences: their numbers, and their last words.
  std::vector<std::int64_t> open(translations.size());
  std::iota(open.begin(), open.end(), 0);
  std::vector<std::int32_t> words(open.size(), eos);
  for (std::int64_t step = 0; step < longest && !open.empty(); ++step) {
    const Tensor y = Tensor::from(std::span<const std::int32_t>(words), {std::ssize(words)});
    const Tensor h = decoder.next(embed_y_(Variable(y.to(device))).value());
    const std::vector<std::int32_t> found = largest_of_rows(w_(Variable(h)).value());
    std::vector<std::int64_t> rows, still_open;
    words.clear();
    for (std::size_t row = 0; row < found.size(); ++row) {
      if (found[row] == eos) continue;
      translations[static_cast<std::size_t>(open[row])].push_back(found[row]);
      rows.push_back(static_cast<std::int64_t>(row));
      still_open.push_back(open[row]);
      words.push_back(found[row]);
    }
    if (!rows.empty() && rows.size() < open.size()) decoder.keep(rows);
    open = std::move(still_open);
  }
  return translations;
}

Seq2seq::Seq2seq(const Seq2seqSizes& sizes) : encoder_(sizes), decoder_(sizes) {
  add("embed_x", encoder_.embed_x_);
  add("embed_y", decoder_.embed_y_);
  add("encoder", encoder_.encoder_);
  add("decoder", decoder_.decoder_);
  add("W", decoder_.w_);
}

}  // namespace tasuki

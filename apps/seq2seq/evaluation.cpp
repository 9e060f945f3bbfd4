#include "apps/seq2seq/evaluation.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "apps/seq2seq/vocabulary.hpp"

namespace tasuki::seq2seq {
namespace {

Bytes as_bytes(const Quality& found) {
  const auto bytes = std::as_bytes(std::span(&found, 1));
  return {bytes.begin(), bytes.end()};
}

Quality quality_of(const Bytes& bytes) {
  TASUKI_CHECK(bytes.size() == sizeof(Quality), "a result of {} bytes", bytes.size());
  Quality found;
  std::memcpy(&found, bytes.data(), sizeof(Quality));
  return found;
}

// The targets of a batch without their ends.
std::vector<std::vector<std::int32_t>> targets_of(const Batch& batch) {
  const Tensor t = batch["t"].to(Device::cpu()), lengths = batch.lengths("t").to(Device::cpu());
  std::vector<std::vector<std::int32_t>> targets;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int32_t* const row = t.data<std::int32_t>() + i * t.shape()[1];
    targets.emplace_back(row, row + lengths.data<std::int64_t>()[i] - 1);
  }
  return targets;
}

}  // namespace

void Quality::add(const Quality& other) {
  loss += other.loss;
  words += other.words;
  sentences += other.sentences;
  exact += other.exact;
  bleu.add(other.bleu);
}

void compare(const std::vector<std::vector<std::int32_t>>& translations, const Batch& batch,
             Quality& found) {
  const auto targets = targets_of(batch);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ++found.sentences;
    const std::vector<std::int32_t> answer = answer_of(targets[i]);
    if (translations[i] == answer) ++found.exact;
    found.bleu.add(translations[i], answer);
  }
}

std::unique_ptr<Extension> create_translation_evaluator(
    std::unique_ptr<Iterator> batches, std::function<Quality(const Batch& batch)> evaluate,
    bool with_bleu) {
  return std::make_unique<GenericEvaluator>(
      std::move(batches),
      [evaluate = std::move(evaluate)](const Batch& batch) { return as_bytes(evaluate(batch)); },
      [with_bleu](const std::vector<Bytes>& results, Observation& found) {
        Quality all;
        for (const Bytes& bytes : results) all.add(quality_of(bytes));
        found.add_sum("main/loss", all.loss, all.words);
        found.add_sum("main/exact", static_cast<double>(all.exact), all.sentences);
        if (with_bleu) found.add_sum("main/bleu", all.bleu.value(), 1);
      });
}

}  // namespace tasuki::seq2seq

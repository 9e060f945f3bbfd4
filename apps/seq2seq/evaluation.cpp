#include "seq2seq/evaluation.hpp"

#include <cstring>
#include <span>

#include "tasuki/nn/functions/accuracy.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/training/bleu.hpp"

namespace tasuki::seq2seq {
namespace {

// Of one batch.
struct Result {
  double loss = 0;  // summed over words
  std::int64_t words = 0, sentences = 0, exact = 0;
  BleuCounts bleu;
};

Bytes as_bytes(const Result& result) {
  const auto bytes = std::as_bytes(std::span(&result, 1));
  return {bytes.begin(), bytes.end()};
}

Result result_of(const Bytes& bytes) {
  TASUKI_CHECK(bytes.size() == sizeof(Result), "a result of {} bytes", bytes.size());
  Result result;
  std::memcpy(&result, bytes.data(), sizeof(Result));
  return result;
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

Result evaluate(Seq2seq& model, const LossFunction& loss, const Batch& batch) {
  Result result;
  Observation unused;
  result.words = batch.weight();
  result.loss = loss(batch, unused).value().item() * static_cast<double>(result.words);
  const Device device = model.device();
  const auto translations = model.translate(batch["x"].to(device), batch.lengths("x").to(device));
  const auto targets = targets_of(batch);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ++result.sentences;
    if (translations[i] == targets[i]) ++result.exact;
    result.bleu.add(translations[i], targets[i]);
  }
  return result;
}

}  // namespace

LossFunction translation_loss(Seq2seq& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    const Tensor t = batch["t"].to(device);
    const Variable scores = model.forward(batch["x"].to(device), batch.lengths("x").to(device),
                                          batch["y"].to(device), batch.lengths("y").to(device));
    const Tensor labels = t.reshape({t.count()});
    const AccuracyResult right = count_correct(scores, labels);
    report.add_sum("accuracy", right.correct, right.counted);
    return softmax_cross_entropy(scores, labels);
  };
}

std::unique_ptr<Extension> create_translation_evaluator(std::unique_ptr<Iterator> batches,
                                                        Seq2seq& model, LossFunction loss,
                                                        bool with_bleu) {
  return std::make_unique<GenericEvaluator>(
      std::move(batches),
      [&model, loss = std::move(loss)](const Batch& batch) {
        return as_bytes(evaluate(model, loss, batch));
      },
      [with_bleu](const std::vector<Bytes>& results, Observation& found) {
        Result all;
        for (const Bytes& bytes : results) {
          const Result one = result_of(bytes);
          all.loss += one.loss;
          all.words += one.words;
          all.sentences += one.sentences;
          all.exact += one.exact;
          all.bleu.add(one.bleu);
        }
        found.add_sum("main/loss", all.loss, all.words);
        found.add_sum("main/exact", static_cast<double>(all.exact), all.sentences);
        if (with_bleu) found.add_sum("main/bleu", all.bleu.value(), 1);
      });
}

}  // namespace tasuki::seq2seq

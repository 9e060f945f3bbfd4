#include "nn/classifier.hpp"

#include "nn/functions/loss.hpp"

namespace tasuki {

Classifier::Classifier(std::unique_ptr<Layer> predictor) : predictor_(std::move(predictor)) {
  TASUKI_CHECK(predictor_ != nullptr, "a classifier needs a predictor");
  add("predictor", *predictor_);
}

Classifier::Result Classifier::operator()(const Variable& x, const Tensor& t) {
  const Variable scores = predictor_->forward(x);
  const auto [loss, right] = functions::loss_and_accuracy(scores, t);
  return {loss, right.correct, right.counted, scores.shape()[0]};
}

}  // namespace tasuki

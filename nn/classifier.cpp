#include "nn/classifier.hpp"

#include "nn/functions/accuracy.hpp"
#include "nn/functions/softmax_cross_entropy.hpp"

namespace tasuki {

Classifier::Classifier(std::unique_ptr<Layer> predictor) : predictor_(std::move(predictor)) {
  TASUKI_CHECK(predictor_ != nullptr, "a classifier needs a predictor");
  add("predictor", *predictor_);
}

Classifier::Result Classifier::operator()(const Variable& x, const Tensor& t) {
  const Variable scores = predictor_->forward(x);
  const auto [correct, counted] = count_correct(scores, t);
  return {softmax_cross_entropy(scores, t), correct, counted, scores.shape()[0]};
}

}  // namespace tasuki

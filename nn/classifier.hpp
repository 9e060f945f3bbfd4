// Classifier: a predictor with its loss and its number of correct answers.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// The predictor's parameters are found under "predictor/", as in Chainer.
class Classifier : public Module {
 public:
  explicit Classifier(std::unique_ptr<Layer> predictor);

  struct Result {
    Variable loss;              // softmax cross entropy, mean over the examples with a label
    Tensor correct;             // int64 scalar: examples whose label has the highest score
    Tensor counted;             // int64 scalar: examples with a label
    std::int64_t examples = 0;  // of the batch
  };
  // x: N x ...; t: N labels, int32 or int64, -1 for examples without one.
  Result operator()(const Variable& x, const Tensor& t);

  Layer& predictor() { return *predictor_; }

 private:
  std::unique_ptr<Layer> predictor_;
};

}  // namespace tasuki

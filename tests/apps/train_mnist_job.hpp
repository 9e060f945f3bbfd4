// train_mnist on a small data set.
#pragma once

#include "digits.hpp"
#include "training_job.hpp"

namespace tasuki::testing {

class TrainMnist : public TrainingJob {
 protected:
  static constexpr int train_examples = 480, test_examples = 100;

  TrainMnist() : TrainingJob({TRAIN_MNIST, "--unit", "32"}) {
    write_digits(data, train_examples, test_examples);
  }
};

}  // namespace tasuki::testing

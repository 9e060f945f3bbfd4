// train_mnist on a small data set.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/digits.hpp"
#include "training_job.hpp"

namespace tasuki::testing {

class TrainMnist : public TrainingJob {
 protected:
  static constexpr int train_examples = 480, test_examples = 100;

  TrainMnist() : TrainingJob({program_file(), "--unit", "32"}) {
    write_digits(data, train_examples, test_examples);
  }

 private:
  // A bundle (scripts/bundle.sh) has the program elsewhere than the build that it was made of.
  static std::string program_file() {
    const char* const programs = std::getenv("TASUKI_PROGRAMS");
    return programs ? programs + std::string("/train_mnist") : TRAIN_MNIST;
  }
};

}  // namespace tasuki::testing

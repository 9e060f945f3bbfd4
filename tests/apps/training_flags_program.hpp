// A program that has the flags that all training programs share, and nothing else.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "program/flags/training_flags.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {

struct Program {
  Program() { program::add_training_flags(options, settings); }
  program::Options::Request parse(const std::vector<std::string>& arguments,
                                  const std::string& file = "") {
    return options.parse(arguments, [&](const std::filesystem::path&) { return file; });
  }

  program::TrainingSettings settings;
  program::Options options{"train_test", "A program.", "mpirun -np 4 train_test"};
};

inline std::string usage_error_of(const std::function<void()>& work) {
  return error_everywhere_of(ErrorKind::usage, work);
}

}  // namespace tasuki::testing

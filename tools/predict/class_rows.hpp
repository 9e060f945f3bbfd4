// Predicted classes as text: a row for each example.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/predict/predictions.hpp"
#include "tools/predict/settings.hpp"

namespace tasuki::predict {

// The names of examples and classes.
struct Names {
  std::vector<std::string> examples;  // empty: numbers, from 0
  std::vector<std::string> classes;   // empty: numbers

  std::string example(std::int64_t i) const;
  std::string of_class(std::int32_t i) const;
};

std::string rows_text(const Predictions& predictions, const Names& names, Format format);

}  // namespace tasuki::predict

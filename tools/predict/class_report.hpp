// Predicted classes as text: a row for each example, and a summary of all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/images/image_check.hpp"
#include "tools/predict/predictions.hpp"
#include "tools/predict/settings.hpp"

namespace tasuki::predict {

// What examples and classes are called.
struct Names {
  std::vector<std::string> examples;  // empty: by their numbers, from 0
  std::vector<std::string> classes;   // empty: by their numbers

  std::string example(std::int64_t i) const;
  std::string of_class(std::int32_t i) const;
};

// A row for each example: its name, the classes with the highest scores, and its label if it has
// one.
std::string rows_text(const Predictions& predictions, const Names& names, Format format);

// The confusion of classes: how often examples of one are taken for another.
class Confusion {
 public:
  Confusion(const Predictions& predictions, std::int64_t classes);

  std::int64_t classes() const { return classes_; }
  // Examples with this label that are taken for `predicted`.
  std::int64_t count(std::int64_t label, std::int64_t predicted) const {
    return counts_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
  std::int64_t examples(std::int64_t label) const;
  std::int64_t predicted(std::int64_t as) const;
  std::int64_t correct() const;

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// Number of examples; if they have labels, accuracy and mean loss (as the training programs count
// them: of GoogLeNetBn with the auxiliary classifiers' losses, which also stand beside it) and the
// confusion of classes, else how often each class was predicted; and which image files could not be
// read. JSON: one object "summary".
std::string summary_text(const Predictions& predictions, const Names& names,
                         std::span<const ImageProblem> unreadable, std::int64_t classes,
                         Format format);

}  // namespace tasuki::predict

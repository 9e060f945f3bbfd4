// Predicted classes over all examples: accuracy, mean loss, confusion.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/images/image_check.hpp"
#include "tools/predict/class_rows.hpp"
#include "tools/predict/predictions.hpp"
#include "tools/predict/settings.hpp"

namespace tasuki::predict {

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

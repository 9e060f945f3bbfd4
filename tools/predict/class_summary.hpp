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

// The confusion matrix: how often examples of one class are taken for another.
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

// The number of examples; with labels, accuracy, mean loss and the confusion of classes, else how
// often each class was predicted; and the image files that could not be read. The loss is computed
// as in training: GoogLeNetBn's includes the auxiliary classifiers' losses, which are also shown
// separately. JSON: one object "summary".
std::string summary_text(const Predictions& predictions, const Names& names,
                         std::span<const ImageProblem> unreadable, std::int64_t classes,
                         Format format);

}  // namespace tasuki::predict

// show_misclassified: images that a classifier takes for something else, in TensorBoard.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "training/extension.hpp"

namespace tasuki {

// After each epoch, rank 0 adds to its TensorBoard (tensorboard.hpp) the first 16 examples that are
// wrong in the first 8 of `batches` (of its share of the test data: fields "x" and "t"): the image
// "validation/misclassified", a grid of 4 columns, and the text "validation/labels of
// misclassified", a table with their labels and predictions, by `class_names` if there are any.
// Inputs are N x C x H x W with 1 or 3 channels, or rows of square grey images; pixels outside of
// 0 .. 1 (standardised ones) are scaled to that range, image by image. Does nothing for other
// inputs, if the updater's model is not a Classifier, or if its passes exchange messages.
std::unique_ptr<Extension> show_misclassified(std::unique_ptr<Iterator> batches,
                                              std::vector<std::string> class_names = {});

}  // namespace tasuki

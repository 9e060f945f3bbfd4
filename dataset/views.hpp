// Data sets made from another one.
#pragma once

#include <memory>
#include <vector>

#include "tasuki/dataset/dataset.hpp"

namespace tasuki {

// The examples of `dataset` at these indices, in this order; a view.
std::shared_ptr<const Dataset> subset_of(std::shared_ptr<const Dataset> dataset,
                                         std::vector<std::int64_t> indices);

// As many examples as `dataset` has, without values (shape 0) and with label -1, which no loss
// counts: for ranks whose model gets its input in messages but whose trainer needs an iterator of
// the same length.
std::shared_ptr<const Dataset> create_empty_dataset(const Dataset& dataset);

}  // namespace tasuki

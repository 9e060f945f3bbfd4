// Data sets made from another one.
#pragma once

#include <memory>
#include <vector>

#include "dataset/dataset.hpp"

namespace tasuki {

// The examples of `dataset` at these indices, in this order; a view.
std::shared_ptr<const Dataset> subset_of(std::shared_ptr<const Dataset> dataset,
                                         std::vector<std::int64_t> indices);

// As many examples as `dataset` has, with its fields but without values: axis 0 of each field has
// length 0. Only integer targets have values: -1, which losses ignore. For ranks whose model gets
// its input in messages but whose trainer needs an iterator of the same length.
std::shared_ptr<const Dataset> create_empty_dataset(const Dataset& dataset);

}  // namespace tasuki

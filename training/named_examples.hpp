// Errors about an example say its number in the data set.
#pragma once

#include "dataset/batch.hpp"
#include "tensor/bad_index.hpp"

namespace tasuki {

namespace detail {
// Throws an error that names the first example of the batch that has this value; returns if no
// example has it, or if several fields have it, because the value may be right in one of them.
void fail_on_index(const Batch& batch, const BadIndex& bad);
}  // namespace detail

// Calls `work`, which computes losses of the batch. A BadIndex becomes an error that says which
// example of the data set has the value, if exactly one of the batch's fields has it.
template <class Work>
auto naming_examples(const Batch& batch, const Work& work) {
  try {
    return work();
  } catch (const BadIndex& bad) {
    detail::fail_on_index(batch, bad);
    throw;
  }
}

}  // namespace tasuki

// Embeddings of ids (Chainer's F.embed_id).
#pragma once

#include <cstdint>
#include <optional>

#include "nn/variable.hpp"

namespace tasuki {

// Rows of w (n x d) by number: ids (int32 or int64) of any shape with up to 5 axes, to the same
// shape x d. Rows of `ignore_label` are zeros and have no gradient. Any other id outside of
// 0 .. n - 1 is an error of kind data on CPUs and makes a row of NaN on GPUs. The result has w's
// type, or that of its rounded copy if an optimizer keeps one (Optimizer::compute_in).
Variable embed_id(const Tensor& ids, const Variable& w,
                  std::optional<std::int64_t> ignore_label = std::nullopt);

}  // namespace tasuki

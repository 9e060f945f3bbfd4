// Softmax cross entropy and accuracy, in float32 for all types of scores.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// items x classes scores and a label for each row: int32 or int64, -1 for rows that do not count. A
// label that is not a class makes its loss (and so the mean) not a number, because a kernel cannot
// throw.
struct Scores {
  DType type = DType::float32;
  const void* values = nullptr;
  std::int64_t items = 0, classes = 0;
  DType label_type = DType::int32;
  const void* labels = nullptr;
};

// The rows' softmax, the number of rows that count, and the mean of their losses (0 if there are
// none). `counts`, if not null: as count_correct(), by the same kernel if there are few rows.
// Scratch memory: `row_losses`, one float per row; `sums`, 2 * loss_blocks doubles.
void softmax_cross_entropy(const Launch& launch, const Scores& scores, float* probabilities,
                           float* loss, std::int64_t* counted, std::int64_t* counts,
                           float* row_losses, double* sums);

// dx = (probabilities - one at the label) * *dy / max(*counted, 1), 0 in rows that do not count. dy
// is of `dy_type`, an activation's.
void softmax_cross_entropy_backward(const Launch& launch, const Scores& dx, void* dx_values,
                                    const float* probabilities, const std::int64_t* counted,
                                    DType dy_type, const void* dy);

// counts[0] = rows whose largest score is at their label; among equal ones the first counts.
// counts[1] = rows that have a label.
void count_correct(const Launch& launch, const Scores& scores, std::int64_t* counts);

}  // namespace tasuki::kernels

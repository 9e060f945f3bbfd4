// Kernels of mean losses, in float32 for all types of activations.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// outer x classes x inner scores and a label (int32 or int64) for each position; see
// CrossEntropySettings.
struct GeneralScores {
  DType type = DType::float32;
  const void* values = nullptr;
  std::int64_t outer = 0, classes = 0, inner = 1;
  DType label_type = DType::int32;
  const void* labels = nullptr;
  std::int64_t ignored_label = -1;
  float smoothing = 0;
  const float* class_weights = nullptr;  // null: all 1
};

// Blocks that add up losses.
inline constexpr int loss_blocks = 256;

// The mean loss, the number of positions that count, and what the backward pass takes: the largest
// score of each position, then each position's sum of exponentials of the distances from it.
// Scratch memory: `losses`, one float per position; `sums`, 2 * loss_blocks doubles.
void general_cross_entropy(const Launch& launch, const GeneralScores& scores, float* loss,
                           std::int64_t* counted, float* saved, float* losses, double* sums);
// dx in the scores' type and order; dy: a float32 scalar.
void general_cross_entropy_backward(const Launch& launch, const GeneralScores& scores,
                                    const float* saved, const std::int64_t* counted,
                                    const float* dy, void* dx);

// The same for rows of many classes (long_rows_cross_entropy.cu), which general_cross_entropy()
// calls: without smoothing and weights, of whole packs of 16 bytes. `other`: of the scores' form.
bool are_long_rows(const GeneralScores& scores, const void* other);
void long_rows_cross_entropy(const Launch& launch, const GeneralScores& scores, float* tops,
                             float* sums, float* losses);
void long_rows_cross_entropy_gradient(const Launch& launch, const GeneralScores& scores,
                                      const float* tops, const float* sums,
                                      const std::int64_t* counted, const float* dy, void* dx);

// Scores and targets of float32, int32 or int64.
struct TargetedScores {
  DType type = DType::float32;
  const void* values = nullptr;
  std::int64_t count = 0;
  DType target_type = DType::float32;
  const void* targets = nullptr;
  std::int64_t ignored_label = -1;  // of integers
};

// `sums`: scratch memory of 2 * loss_blocks doubles.
void sigmoid_cross_entropy(const Launch& launch, const TargetedScores& scores, float* loss,
                           std::int64_t* counted, double* sums);
void sigmoid_cross_entropy_backward(const Launch& launch, const TargetedScores& scores,
                                    const std::int64_t* counted, const float* dy, void* dx);
// With float32 targets.
void huber(const Launch& launch, const TargetedScores& scores, float delta, float* loss,
           std::int64_t* counted, double* sums);
void huber_backward(const Launch& launch, const TargetedScores& scores, float delta,
                    const float* dy, void* dx);

}  // namespace tasuki::kernels

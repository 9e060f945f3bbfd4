// Shared by mean losses. Sums are made of blocks of fixed size, so that their bits do not depend on
// the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/loss_operations.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

inline constexpr std::int64_t loss_block = 1024;

// Calls work(begin, end) for the blocks of [0, count).
template <class Work>
void for_each_loss_block(std::int64_t count, const Work& work) {
  parallel_for((count + loss_block - 1) / loss_block, 8, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i)
      work(i * loss_block, std::min(count, (i + 1) * loss_block));
  });
}

// The sum of part(begin, end) over the blocks of [0, count).
template <class Part>
double sum_of_blocks(std::int64_t count, const Part& part) {
  std::vector<double> sums(static_cast<std::size_t>((count + loss_block - 1) / loss_block));
  for_each_loss_block(count, [&](std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(begin / loss_block)] = part(begin, end);
  });
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

// Calls visitor(pointer to the labels) with their type.
template <class Visitor>
decltype(auto) with_labels(const Tensor& labels, const Visitor& visitor) {
  if (labels.dtype() == DType::int64) return visitor(labels.data<std::int64_t>());
  return visitor(labels.data<std::int32_t>());
}

// The number of labels other than the ignored one. A label that is neither that nor a class is an
// error of kind data.
std::int64_t count_labels(const Tensor& labels, std::int64_t classes, std::int64_t ignored);

CountedLoss mean_of(double sum, std::int64_t counted);

// dy / (the number that counts).
float factor_of(const Tensor& dy, std::int64_t counted);

// LossOperations::softmax_cross_entropy.
CountedLoss cpu_cross_entropy(const ClassScores& scores, const CrossEntropySettings& settings);
Tensor cpu_cross_entropy_backward(const CountedLoss& forward, const ClassScores& scores,
                                  const CrossEntropySettings& settings, const Tensor& dy);

}  // namespace tasuki

#include "optimizer/power_sgd.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "optimizer/power_sgd_arithmetic.hpp"

namespace tasuki {
namespace {

// Matrices in left_ and right_ begin at a cache line, as parameters do in the arena.
constexpr std::int64_t step = 16;  // elements

std::int64_t padded(std::int64_t count) {
  return (count + step - 1) / step * step;
}

Tensor allocate(Communicator& communicator, std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  return {communicator.allocate(bytes), 0, {count}, DType::float32};
}

void copy(float* to, const float* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

// Whether the bits of sums may differ between ranks. They may with MPI_Allreduce, which does not
// promise equal bits, and with a program's own kinds, which are unknown here. They are equal if
// Tasuki rounds values, plans messages or adds in shared memory.
bool sums_may_differ(const Communicator& communicator) {
  const CommunicatorOptions& options = communicator.options();
  if (!communicator.exchanges_gradients() || options.wire_dtype != DType::float32) return false;
  if (options.algorithm) return options.algorithm == AllreduceAlgorithm::mpi;
  return !communicator.sums_alike();
}

}  // namespace

PowerSgd::PowerSgd(const ParameterArena& arena, Communicator& communicator, std::int64_t rank)
    : arena_(arena),
      communicator_(communicator),
      sums_may_differ_(sums_may_differ(communicator)),
      rank_(rank),
      errors_(Tensor::zeros({arena.gradients().count()}, DType::float32, Device::cpu())) {
  std::int64_t left = 0, right = 0;
  for (const ParameterArena::Entry& entry : arena.entries()) {
    const Shape& shape = entry.parameter->shape();
    if (shape.rank() < 2) continue;
    const std::int64_t rows = shape[0], columns = entry.count / std::max<std::int64_t>(rows, 1);
    if (rank * (rows + columns) >= entry.count) continue;
    matrices_.push_back({entry.offset, rows, columns, left, right});
    left_segments_.push_back({left, rank * rows});
    right_segments_.push_back({right, rank * columns});
    left += padded(rank * rows);
    right += padded(rank * columns);
  }
  directions_ = right;
  const auto is_compressed = [&](const GradientView::Segment& segment) {
    return std::ranges::count(matrices_, segment.offset, &Matrix::offset) > 0;
  };
  for (const auto& segment : arena.gradient_view().segments) {
    if (is_compressed(segment)) continue;
    plain_.push_back({{segment.offset, segment.offset + segment.count}, right});
    right_segments_.push_back({right, segment.count});
    right += padded(segment.count);
  }
  left_ = allocate(communicator, left);
  right_ = allocate(communicator, right);
}

float* PowerSgd::gradient_of(const Matrix& matrix) const {
  return arena_.gradients().data<float>() + matrix.offset;
}
float* PowerSgd::errors_of(const Matrix& matrix) const {
  return errors_.data<float>() + matrix.offset;
}
float* PowerSgd::left_of(const Matrix& matrix) const {
  return left_.data<float>() + matrix.left;
}
float* PowerSgd::right_of(const Matrix& matrix) const {
  return right_.data<float>() + matrix.right;
}

void PowerSgd::sum(const Tensor& values, const std::vector<GradientView::Segment>& segments,
                   std::int64_t exact_at_end, double wire_scale_hint) const {
  communicator_.sum_gradients({.arena = values,
                               .segments = segments,
                               .wire_scale_hint = wire_scale_hint,
                               .exact_at_end = exact_at_end,
                               .is_agreed = is_agreed_});
  if (sums_may_differ_) communicator_.bcast_data(values);
}

void PowerSgd::exchange(double wire_scale_hint) {
  std::uint64_t number = 0;
  for (const Matrix& matrix : matrices_) {
    const auto [offset, rows, columns, left, right] = matrix;
    add(gradient_of(matrix), errors_of(matrix), rows * columns);
    // A direction of length 0, as all are in the first step, is drawn anew.
    orthonormalize(right_of(matrix), columns, rank_, number++);
    multiply(gradient_of(matrix), rows, columns, right_of(matrix), rank_, left_of(matrix));
  }
  if (!matrices_.empty()) sum(left_, left_segments_, 0, wire_scale_hint);

  for (const Matrix& matrix : matrices_) {
    const auto [offset, rows, columns, left, right] = matrix;
    orthonormalize(left_of(matrix), rows, rank_, std::nullopt);
    multiply_transposed(gradient_of(matrix), rows, columns, left_of(matrix), rank_,
                        right_of(matrix));
    copy(errors_of(matrix), gradient_of(matrix), rows * columns);
    subtract_product(errors_of(matrix), rows, columns, left_of(matrix), right_of(matrix), rank_);
    drop_infinite(errors_of(matrix), rows * columns);
  }
  const float* const gradients = arena_.gradients().data<float>();
  for (const auto& [from, to] : plain_)
    copy(right_.data<float>() + to, gradients + from.begin, from.size());
  sum(right_, right_segments_, right_.count() - plain_.back().to, wire_scale_hint);

  for (const Matrix& matrix : matrices_)
    write_product(gradient_of(matrix), matrix.rows, matrix.columns, left_of(matrix),
                  right_of(matrix), rank_);
  for (const auto& [from, to] : plain_)
    copy(arena_.gradients().data<float>() + from.begin, right_.data<float>() + to, from.size());
  is_agreed_ = true;
}

}  // namespace tasuki

// PowerSgd: sums gradients over the ranks in a compressed form (Vogels, Karimireddy and Jaggi,
// "PowerSGD: practical low-rank gradient compression for distributed optimization", NeurIPS 2019,
// algorithms 1 and 2).
//
// A parameter's gradient is a matrix M of n = shape[0] rows and m columns. Only the part of M in
// the span of r directions travels: r (n + m) numbers instead of n m. Each step begins with the
// last step's directions Q and improves them by one step of the power method: P = M Q is summed
// over the ranks and made orthonormal, Q = transpose(M) P is summed, and P transpose(Q) replaces
// the gradient. A rank adds the rest of its gradient to the next step's gradient (error feedback),
// without numbers that are not finite. Parameters with one axis, matrices that would not become
// smaller, and the notices are summed uncompressed.
//
// All ranks must compute the same orthonormal P. If gradients have fewer than r directions, a
// single bit of a sum can decide about a whole column of P. So if sums may differ between ranks,
// all use rank 0's sums.
#pragma once

#include <cstdint>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/range.hpp"
#include "optimizer/arena.hpp"

namespace tasuki {

class PowerSgd {
 public:
  // `rank` is r, at least 1; the same on all ranks, like the arena. Both outlive the object. The
  // arena's arrays are on the CPU. Collective.
  PowerSgd(const ParameterArena& arena, Communicator& communicator, std::int64_t rank);

  // Replaces the gradients by approximate sums over all ranks, with the same bits on all ranks.
  // errors() must be sums over as many examples as the gradients. `wire_scale_hint`: as in
  // GradientView. Collective.
  void exchange(double wire_scale_hint);

  // The state carried over to the next step: this rank's errors, with the arena's offsets, and the
  // matrices Q, which are the same on all ranks. Writing to a tensor changes the state.
  const Tensor& errors() const { return errors_; }
  Tensor directions() const { return right_.slice(0, directions_); }
  // How many numbers travel in a step, and how many would travel without compression.
  std::int64_t count() const { return left_.count() + right_.count(); }
  std::int64_t uncompressed_count() const { return arena_.gradients().count(); }

 private:
  // A compressed gradient. Matrices P and Q are stored by columns.
  struct Matrix {
    std::int64_t offset;         // in the arena
    std::int64_t rows, columns;  // n, m
    std::int64_t left, right;    // of P and Q in left_ and right_
  };
  // Gradients that travel uncompressed.
  struct Plain {
    Range from;       // in the arena
    std::int64_t to;  // in right_
  };

  float* gradient_of(const Matrix& matrix) const;
  float* errors_of(const Matrix& matrix) const;
  float* left_of(const Matrix& matrix) const;
  float* right_of(const Matrix& matrix) const;
  void sum(const Tensor& values, const std::vector<GradientView::Segment>& segments,
           std::int64_t exact_at_end, double wire_scale_hint) const;

  const ParameterArena& arena_;
  Communicator& communicator_;
  bool sums_may_differ_;
  std::int64_t rank_;
  std::vector<Matrix> matrices_;
  std::vector<Plain> plain_;
  // The first sum is of P of all matrices, the second one of Q, plain gradients and notices.
  Tensor left_, right_;
  std::vector<GradientView::Segment> left_segments_, right_segments_;
  std::int64_t directions_ = 0;  // elements of Q in right_
  Tensor errors_;
  bool is_agreed_ = false;
};

}  // namespace tasuki

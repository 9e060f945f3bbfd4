// Shapes of results, and what loops over them need, checked in one place for all backends:
// convolutions, pooling, joining and cutting along an axis, matrix products, reductions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/array_operations.hpp"
#include "tensor/operation_options.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

struct ConvolutionGeometry {
  Shape x, w, y;  // N x I x H x W, O x I/groups x KH x KW, N x O x OH x OW
  Conv2dOptions options;

  // Computes the shape of y; an Error names shapes and settings that do not fit each other.
  ConvolutionGeometry(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& settings);
  std::string text() const;
};

struct PoolingGeometry {
  Shape x, y;  // N x C x H x W, N x C x OH x OW
  Pool2dOptions options;
  // Padding after the last row and column, as much as the last windows need.
  std::int64_t pad_end_h = 0, pad_end_w = 0;

  // Computes the shape of y; an Error names shapes and settings that do not fit each other. With
  // `cover_all`, where the stride leaves a rest of the padded image, one more window reaches over
  // the far edge, unless it would begin behind the last row or column of x.
  PoolingGeometry(const Shape& x_shape, const Pool2dOptions& settings);
  std::string text() const;
};

struct AxisGeometry {
  Shape shape;             // of the result
  std::int64_t rows = 1;   // positions along the axes before, flattened
  std::int64_t inner = 1;  // elements along the axes after, flattened
};

// For Backend::concat: parts of one device and type whose shapes differ only along the axis.
AxisGeometry concat_geometry(std::span<const Tensor> parts, int axis);
// For Backend::take.
AxisGeometry take_geometry(const Shape& x, int axis, std::int64_t begin, std::int64_t end);

// Products c[i] = op(a[i]) op(b[i]) of row-major matrices, m x k and k x n after op. Where several
// can be computed as one larger product, they are: many matrices times a single one, sums over
// stored rows.
struct MatmulGeometry {
  Shape shape;  // of the result
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  // Elements from one matrix to the next; 0 for a single one. All products are added up in one
  // result if step_c is 0.
  std::int64_t step_a = 0, step_b = 0, step_c = 0;

  // As ArrayOperations::matmul; an error names shapes that do not fit each other.
  MatmulGeometry(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b, bool sums);
};

// A reduction of the middle axis: outer x length x inner to outer x inner.
struct AxisReduction {
  std::int64_t outer = 1, length = 1, inner = 1;
};

// How a reduction over any axes becomes reductions of a middle axis.
struct ReductionPlan {
  Shape shape;                        // of the result, reduced axes with size 1
  std::vector<AxisReduction> passes;  // one after the other, each on the result of the one before
  // An error if an axis does not exist, or the largest of nothing is asked for.
  ReductionPlan(Reduction op, const Shape& x, AxisSet axes);
};

}  // namespace tasuki

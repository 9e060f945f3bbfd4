// The operations of cuDNN's graphs, computed one after the other as its documentation defines each.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace tasuki::simulated {

using Sizes = std::array<std::int64_t, 4>;

// All that a run needs to know of an array of the graph.
struct Array {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Sizes sizes = {}, steps = {};
  bool is_inner = false, is_number = false;

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
};

enum class Kind { multiply, pointwise, reduce, reorder };

struct Operation {
  Kind kind = Kind::multiply;
  int function = 0;  // of cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  std::int64_t axis = -1;
  std::vector<Array> inputs;  // of a pointwise operation: x, b, condition, as far as there are
  Array result;
};

// What a graph is run with, by the arrays' numbers: memory, and floats of the host.
struct GraphInputs {
  std::map<std::int64_t, void*> arrays;
  std::map<std::int64_t, float> numbers;
};

// Results are rounded to the types of their arrays, also between operations. What cuDNN leaves
// undefined, such as rows of padding, becomes what the operations make of it: NaN.
void compute(const std::vector<Operation>& operations, const GraphInputs& inputs);
// Leaves NaN in all results.
void spoil(const std::vector<Operation>& operations, const GraphInputs& inputs);

}  // namespace tasuki::simulated

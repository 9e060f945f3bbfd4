#include "graph_operations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cudnn_handle.hpp"
#include "values.hpp"

namespace tasuki::simulated {
namespace {

template <class Visitor>
void for_each_index(const Sizes& sizes, Visitor&& visitor) {
  Sizes at = {};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) visitor(at);
}

// Values in the order of indices, without gaps.
struct Values {
  Sizes sizes = {};
  std::vector<float> values;

  // Axes of size 1 are repeated.
  float at(const Sizes& index) const {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
      place = place * sizes[axis] + (sizes[axis] == 1 ? 0 : index[axis]);
    return values[static_cast<std::size_t>(place)];
  }
};

std::size_t place_in(const Array& array, const Sizes& index) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) place += index[axis] * array.steps[axis];
  return static_cast<std::size_t>(place);
}

float rounded(cudnnDataType_t type, float value) {
  const ValueType as = type_of(type);
  if (as == ValueType::unknown || as == ValueType::float32) return value;  // integers are exact
  std::array<std::byte, 4> room{};
  store(as, room.data(), 0, value);
  return load(as, room.data(), 0);
}

double apply(const Operation& operation, const std::array<double, 3>& in, const Sizes& index) {
  const auto [x, b, condition] = in;
  switch (operation.function) {
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_GEN_INDEX:
      return static_cast<double>(index[static_cast<std::size_t>(operation.axis)]);
    case CUDNN_POINTWISE_CMP_LT:
      return x < b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0 ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return condition != 0 ? x : b;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

class Run {
 public:
  void spoil(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations)
      if (!operation.result.is_inner)
        write(operation.result,
              {operation.result.sizes,
               std::vector<float>(static_cast<std::size_t>(operation.result.count()),
                                  std::nanf(""))});
  }

  explicit Run(const GraphInputs& inputs) : given_(inputs) {}

  void compute(const Operation& operation) {
    std::vector<Values> inputs;
    for (const Array& array : operation.inputs) inputs.push_back(read(array));
    const Array& result = operation.result;
    Values values{result.sizes, std::vector<float>(static_cast<std::size_t>(result.count()))};
    std::size_t next = 0;
    for_each_index(result.sizes, [&](const Sizes& at) {
      values.values[next++] =
          rounded(result.type, static_cast<float>(value(operation, inputs, at)));
    });
    write(result, std::move(values));
  }

 private:
  static double value(const Operation& operation, const std::vector<Values>& in, const Sizes& at) {
    double sum = 0;
    switch (operation.kind) {
      case Kind::multiply:
        for (std::int64_t k = 0; k < in[0].sizes[3]; ++k)
          sum += static_cast<double>(in[0].at({at[0], at[1], at[2], k})) *
                 static_cast<double>(in[1].at({at[0], at[1], k, at[3]}));
        return sum;
      case Kind::pointwise: {
        std::array<double, 3> values{};
        for (std::size_t i = 0; i < in.size(); ++i)
          values.at(i) = static_cast<double>(in[i].at(at));
        return apply(operation, values, at);
      }
      case Kind::reduce: {
        const bool is_sum = operation.function == CUDNN_REDUCE_TENSOR_ADD;
        double result = is_sum ? 0 : -std::numeric_limits<double>::infinity();
        Sizes sizes = in[0].sizes;
        for (std::size_t axis = 0; axis < 4; ++axis)
          if (operation.result.sizes[axis] != 1) sizes[axis] = 1;
        for_each_index(sizes, [&](const Sizes& within) {
          Sizes index = at;
          for (std::size_t axis = 0; axis < 4; ++axis) index[axis] += within[axis];
          const auto each = static_cast<double>(in[0].at(index));
          result = is_sum ? result + each : std::max(result, each);
        });
        return result;
      }
      case Kind::reorder:  // the last two axes change places, or none
        return static_cast<double>(operation.inputs[0].sizes == operation.result.sizes &&
                                           operation.inputs[0].steps == operation.result.steps
                                       ? in[0].at(at)
                                       : in[0].at({at[0], at[1], at[3], at[2]}));
    }
    return sum;
  }

  Values read(const Array& array) {
    if (array.is_inner) return inner_.at(array.id);
    Values result{array.sizes, {}};
    if (array.is_number) {
      result.values = {given_.numbers.at(array.id)};
      return result;
    }
    const void* const memory = given_.arrays.at(array.id);
    for_each_index(array.sizes, [&](const Sizes& at) {
      const std::size_t place = place_in(array, at);
      result.values.push_back(array.type == CUDNN_DATA_INT32
                                  ? static_cast<float>(static_cast<const int*>(memory)[place])
                                  : load(type_of(array.type), memory, place));
    });
    return result;
  }

  void write(const Array& array, Values values) {
    if (array.is_inner) {
      inner_[array.id] = std::move(values);
      return;
    }
    void* const memory = given_.arrays.at(array.id);
    std::size_t next = 0;
    for_each_index(array.sizes, [&](const Sizes& at) {
      store(type_of(array.type), memory, place_in(array, at), values.values[next++]);
    });
  }

  const GraphInputs& given_;
  std::map<std::int64_t, Values> inner_;
};

}  // namespace

void compute(const std::vector<Operation>& operations, const GraphInputs& inputs) {
  Run run(inputs);
  for (const Operation& operation : operations) run.compute(operation);
}

void spoil(const std::vector<Operation>& operations, const GraphInputs& inputs) {
  Run(inputs).spoil(operations);
}

}  // namespace tasuki::simulated

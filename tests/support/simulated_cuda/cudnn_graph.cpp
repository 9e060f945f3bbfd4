// cuDNN's graphs of operations: its backend interface, as far as attention uses it. Operations are
// computed one after the other, each as its documentation defines it, and their results rounded to
// the types of the arrays between them. A graph is supported if it is one of attention as cuDNN's
// support tables have it; what they exclude is refused. What cuDNN leaves undefined, such as rows
// of padding, becomes what the operations make of it: NaN.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cudnn_handle.hpp"
#include "device.hpp"
#include "queue.hpp"
#include "refusals.hpp"
#include "values.hpp"

namespace tasuki::simulated {
namespace {

using Sizes = std::array<std::int64_t, 4>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<std::byte> bytes;
};

// An array, an operation, a graph, ... : what has been set.
struct Object {
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(static_cast<std::size_t>(found->second.count));
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
    return values;
  }
  template <class T>
  std::optional<T> one(cudnnBackendAttributeName_t name) const {
    const auto values = all<T>(name);
    return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
  }
  bool flag(cudnnBackendAttributeName_t name) const {
    return one<std::uint8_t>(name).value_or(0) != 0;
  }
  const Object* object(cudnnBackendAttributeName_t name) const {
    return static_cast<const Object*>(one<void*>(name).value_or(nullptr));
  }
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

// --- what is computed ---

// All that a run needs to know of an array of the graph.
struct Array {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Sizes sizes = {}, steps = {};
  bool is_inner = false, is_number = false;

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
};

std::optional<Array> array_of(const Object* object) {
  if (object == nullptr || object->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !object->is_final)
    return std::nullopt;
  Array array;
  array.id = object->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID).value();
  array.type = object->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE).value();
  const auto sizes = object->all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto steps = object->all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy(sizes.begin(), sizes.end(), array.sizes.begin());
  std::copy(steps.begin(), steps.end(), array.steps.begin());
  array.is_inner = object->flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  array.is_number = object->flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return array;
}

enum class Kind { multiply, pointwise, reduce, reorder };

struct Operation {
  Kind kind = Kind::multiply;
  int function = 0;  // of cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  std::int64_t axis = -1;
  std::vector<Array> inputs;  // of a pointwise operation: x, b, condition, as far as there are
  Array result;
};

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
  // Leaves NaN in all results.
  void spoil(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations)
      if (!operation.result.is_inner)
        write(operation.result,
              {operation.result.sizes,
               std::vector<float>(static_cast<std::size_t>(operation.result.count()),
                                  std::nanf(""))});
  }

  Run(std::map<std::int64_t, void*> pointers, std::map<std::int64_t, float> numbers)
      : pointers_(std::move(pointers)), numbers_(std::move(numbers)) {}

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
      result.values = {numbers_.at(array.id)};
      return result;
    }
    const void* const memory = pointers_.at(array.id);
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
    void* const memory = pointers_.at(array.id);
    std::size_t next = 0;
    for_each_index(array.sizes, [&](const Sizes& at) {
      store(type_of(array.type), memory, place_in(array, at), values.values[next++]);
    });
  }

  std::map<std::int64_t, void*> pointers_;
  std::map<std::int64_t, float> numbers_;
  std::map<std::int64_t, Values> inner_;
};

// --- what is accepted ---

std::optional<Operation> operation_of(const Object& object) {
  Operation made;
  const auto take = [&](cudnnBackendAttributeName_t name) {
    const auto array = array_of(object.object(name));
    if (array) made.inputs.push_back(*array);
    return array.has_value();
  };
  const auto give = [&](cudnnBackendAttributeName_t name) {
    const auto array = array_of(object.object(name));
    if (array) made.result = *array;
    return array.has_value();
  };
  const auto part = [&](cudnnBackendAttributeName_t name) {
    const Object* const found = object.object(name);
    return found != nullptr && found->is_final ? found : nullptr;
  };
  switch (object.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      made.kind = Kind::multiply;
      if (!take(CUDNN_ATTR_OPERATION_MATMUL_ADESC) || !take(CUDNN_ATTR_OPERATION_MATMUL_BDESC) ||
          !give(CUDNN_ATTR_OPERATION_MATMUL_CDESC) ||
          part(CUDNN_ATTR_OPERATION_MATMUL_DESC) == nullptr)
        return std::nullopt;
      const Sizes &a = made.inputs[0].sizes, &b = made.inputs[1].sizes, &c = made.result.sizes;
      const bool fits = a[3] == b[2] && a[2] == c[2] && b[3] == c[3] && a[0] == b[0] &&
                        a[0] == c[0] && a[1] == b[1] && a[1] == c[1];
      return fits ? std::optional(made) : std::nullopt;
    }
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      made.kind = Kind::pointwise;
      const Object* const how = part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      if (how == nullptr || !take(CUDNN_ATTR_OPERATION_POINTWISE_XDESC) ||
          !give(CUDNN_ATTR_OPERATION_POINTWISE_YDESC))
        return std::nullopt;
      take(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      take(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
      made.function =
          static_cast<int>(how->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE).value());
      made.axis = how->one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS).value_or(-1);
      for (const Array& input : made.inputs)
        for (std::size_t axis = 0; axis < 4; ++axis)
          if (input.sizes[axis] != 1 && input.sizes[axis] != made.result.sizes[axis])
            return std::nullopt;
      return made;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      made.kind = Kind::reduce;
      const Object* const how = part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      if (how == nullptr || !take(CUDNN_ATTR_OPERATION_REDUCTION_XDESC) ||
          !give(CUDNN_ATTR_OPERATION_REDUCTION_YDESC))
        return std::nullopt;
      made.function =
          static_cast<int>(how->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR).value());
      return made;
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      made.kind = Kind::reorder;
      if (!take(CUDNN_ATTR_OPERATION_RESHAPE_XDESC) || !give(CUDNN_ATTR_OPERATION_RESHAPE_YDESC) ||
          made.inputs[0].count() != made.result.count())
        return std::nullopt;
      return made;
    default:
      return std::nullopt;
  }
}

std::vector<Operation> operations_of(const Object& graph) {
  std::vector<Operation> operations;
  for (void* const each : graph.all<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    operations.push_back(operation_of(*static_cast<const Object*>(each)).value());
  return operations;
}

// Arrays between operations are there before they are used.
bool is_in_order(const std::vector<Operation>& operations) {
  std::set<std::int64_t> known;
  for (const Operation& operation : operations) {
    for (const Array& input : operation.inputs)
      if (input.is_inner && !known.contains(input.id)) return false;
    known.insert(operation.result.id);
  }
  return !operations.empty();
}

std::int64_t products_of(const std::vector<Operation>& operations) {
  return std::ranges::count(operations, Kind::multiply, &Operation::kind);
}
int products_of(const Object* graph) {
  return static_cast<int>(products_of(operations_of(*graph)));
}

// Rows of 16-bit values that are neighbours in memory and begin at multiples of 16 bytes; or of
// float32, which cuDNN adds up queries' gradients in.
bool are_heads(const Array& array, std::int64_t most_columns) {
  if (array.is_inner) return true;
  const std::size_t columns = array.steps[3] == 1 ? 3 : 2;
  const std::int64_t width = array.sizes[columns];
  if (array.type == CUDNN_DATA_FLOAT) return array.steps[columns] == 1;
  if (array.type != CUDNN_DATA_HALF && array.type != CUDNN_DATA_BFLOAT16) return false;
  if (array.steps[columns] != 1 || width % 8 != 0 || width > most_columns) return false;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (axis != columns && array.steps[axis] % 8 != 0) return false;
  return true;
}

// cuDNN's support tables of attention: heads of 8 n columns, at most 256, or 128 in gradients on
// other GPUs than Hopper's; from Ampere on; one product of queries and keys and one with values, or
// the five of the gradient, which is not for a single query and key.
bool is_supported(const std::vector<Operation>& operations) {
  const std::int64_t products = products_of(operations);
  if (compute_capability() < 80 || (products != 2 && products != 5)) return false;
  const std::int64_t most_columns = products == 5 && compute_capability() != 90 ? 128 : 256;
  bool are_16_bits = true;
  for (const Operation& operation : operations) {
    if (operation.kind != Kind::multiply && operation.kind != Kind::pointwise) continue;
    if (operation.kind == Kind::multiply)
      for (const Array& array : operation.inputs) {
        if (!are_heads(array, most_columns)) return false;
        are_16_bits = are_16_bits && (array.is_inner || array.type != CUDNN_DATA_FLOAT);
      }
    const bool is_result =
        operation.kind == Kind::multiply || operation.function == CUDNN_POINTWISE_IDENTITY;
    if (is_result && !are_heads(operation.result, most_columns)) return false;
    const Sizes& sizes = operation.result.sizes;
    if (products == 5 && operation.function == CUDNN_POINTWISE_EXP && sizes[2] == 1 &&
        sizes[3] == 1)
      return false;
  }
  return are_16_bits;
}

// Known to compute wrong values although it is supported: without lengths, gradients that are not
// causal have whatever lies behind the last whole tile.
bool is_spoilt(const std::vector<Operation>& operations) {
  if (products_of(operations) != 5) return false;
  bool is_masked = false, are_whole = true;
  for (const Operation& operation : operations) {
    if (operation.kind == Kind::pointwise && operation.function == CUDNN_POINTWISE_BINARY_SELECT)
      is_masked = true;
    if (operation.kind == Kind::pointwise && operation.function == CUDNN_POINTWISE_EXP)
      are_whole = operation.result.sizes[2] % 128 == 0 && operation.result.sizes[3] % 128 == 0;
  }
  return !is_masked && !are_whole;
}

cudnnStatus_t finish_object(Object& object) {
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const bool is_whole = object.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID) &&
                            object.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) &&
                            object.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) &&
                            object.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() == 4 &&
                            object.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size() == 4;
      if (!is_whole) return CUDNN_STATUS_BAD_PARAM;
      break;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      if (!operation_of(object)) return CUDNN_STATUS_BAD_PARAM;
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (!is_in_order(operations_of(object))) return CUDNN_STATUS_BAD_PARAM;
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      if (object.object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) == nullptr)
        return CUDNN_STATUS_BAD_PARAM;
      if (const auto refused = refusal_of_graph(
              Moment::ask, products_of(object.object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
          refused != CUDNN_STATUS_SUCCESS)
        return refused;
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      if (object.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) == nullptr ||
          !object.one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
        return CUDNN_STATUS_BAD_PARAM;
      if (const auto refused = refusal_of_graph(
              Moment::offer, products_of(object.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                             ->object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
          refused != CUDNN_STATUS_SUCCESS)
        return refused;
      break;
    default:
      break;
  }
  object.is_final = true;
  return CUDNN_STATUS_SUCCESS;
}

constexpr std::int64_t workspace_bytes = 512;

Attribute attribute_of(void* object) {
  Attribute made{CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, std::vector<std::byte>(sizeof(object))};
  std::memcpy(made.bytes.data(), &object, sizeof(object));
  return made;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  *made = new Object{.type = type, .attributes = {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t object) {
  delete static_cast<Object*>(object);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  auto& object = *static_cast<Object*>(to);
  if (object.is_final || count < 1 || values == nullptr) return CUDNN_STATUS_BAD_PARAM;
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(type));
  std::memcpy(bytes.data(), values, bytes.size());
  object.attributes[name] = {type, count, std::move(bytes)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t object) {
  return finish_object(*static_cast<Object*>(object));
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t from,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t /*type*/, std::int64_t room,
                                       std::int64_t* count, void* values) {
  const auto& object = *static_cast<const Object*>(from);
  if (!object.is_final) return CUDNN_STATUS_BAD_PARAM;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    Object* const graph =
        static_cast<Object*>(object.one<void*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).value());
    *count = is_supported(operations_of(*graph)) ? 1 : 0;
    if (room < *count || values == nullptr || *count == 0) return CUDNN_STATUS_SUCCESS;
    auto& engine = *static_cast<Object*>(*static_cast<void**>(values));
    engine.attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = attribute_of(graph);
    engine.is_final = true;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || room != 1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *count = 1;
  std::memcpy(values, &workspace_bytes, sizeof(workspace_bytes));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_object,
                                  cudnnBackendDescriptor_t pack_object) {
  const auto& plan = *static_cast<const Object*>(plan_object);
  const auto& pack = *static_cast<const Object*>(pack_object);
  if (!plan.is_final || !pack.is_final || !handle->is_sound()) return CUDNN_STATUS_BAD_PARAM;
  const Object* const engine = plan.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const std::vector<Operation> operations =
      operations_of(*engine->object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  if (const auto refused =
          refusal_of_graph(Moment::run, static_cast<int>(products_of(operations)), handle->stream);
      refused != CUDNN_STATUS_SUCCESS)
    return refused;
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto given = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != given.size() ||
      !pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).value_or(nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  std::map<std::int64_t, void*> pointers;
  for (std::size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = given[i];
  std::map<std::int64_t, float> numbers;
  for (const Operation& operation : operations) {
    std::vector<Array> arrays = operation.inputs;
    arrays.push_back(operation.result);
    for (const Array& array : arrays) {
      if (array.is_inner) continue;
      const auto found = pointers.find(array.id);
      if (found == pointers.end() || found->second == nullptr) return CUDNN_STATUS_BAD_PARAM;
      // Of numbers in the host's memory cuDNN keeps copies.
      if (array.is_number)
        numbers[array.id] = *static_cast<const float*>(found->second);
      else if (reinterpret_cast<std::uintptr_t>(found->second) % 16 != 0)
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  enqueue(handle->stream, [=] {
    const Access access;
    Run run(pointers, numbers);
    for (const Operation& operation : operations) run.compute(operation);
    if (is_spoilt(operations)) run.spoil(operations);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace tasuki::simulated

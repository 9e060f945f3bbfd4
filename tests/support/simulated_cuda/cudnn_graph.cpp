// cuDNN's graphs of operations: its backend interface, as far as attention uses it. A graph is
// supported if it is one of attention as cuDNN's support tables have it; what they exclude is
// refused. graph_operations.hpp computes it.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cudnn_handle.hpp"
#include "device.hpp"
#include "graph_operations.hpp"
#include "queue.hpp"
#include "refusals.hpp"

namespace tasuki::simulated {
namespace {

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
  GraphInputs inputs{pointers, {}};
  for (const Operation& operation : operations) {
    std::vector<Array> arrays = operation.inputs;
    arrays.push_back(operation.result);
    for (const Array& array : arrays) {
      if (array.is_inner) continue;
      const auto found = pointers.find(array.id);
      if (found == pointers.end() || found->second == nullptr) return CUDNN_STATUS_BAD_PARAM;
      // Of numbers in the host's memory cuDNN keeps copies.
      if (array.is_number)
        inputs.numbers[array.id] = *static_cast<const float*>(found->second);
      else if (reinterpret_cast<std::uintptr_t>(found->second) % 16 != 0)
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  enqueue(handle->stream, [=] {
    const Access access;
    compute(operations, inputs);
    if (is_spoilt(operations)) spoil(operations, inputs);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace tasuki::simulated

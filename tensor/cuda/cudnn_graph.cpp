#include "tensor/cuda/cudnn_graph.hpp"

#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/cuda/cudnn_support.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t alignment = 16;

template <class T>
void set_all(const CudnnObject& object, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, const T& values) {
  check_cudnn(cudnnBackendSetAttribute(object.get(), name, type,
                                       static_cast<std::int64_t>(values.size()), values.data()),
              "cudnnBackendSetAttribute");
}

template <class T>
void set(const CudnnObject& object, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, const T& value) {
  set_all(object, name, type, std::span(&value, 1));
}

void set_object(const CudnnObject& object, cudnnBackendAttributeName_t name, void* value) {
  set(object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value);
}

void finalize(const CudnnObject& object) {
  check_cudnn(cudnnBackendFinalize(object.get()), "cudnnBackendFinalize");
}

// Whether cuDNN accepts it. Some of its parts say that a graph is not supported by other codes.
bool is_accepted(const CudnnObject& object, const char* what) {
  const cudnnStatus_t answer = cudnnBackendFinalize(object.get());
  if (answer != CUDNN_STATUS_SUCCESS) log_verbose("cuDNN: {}: {}", what, cudnn_text(answer));
  return answer == CUDNN_STATUS_SUCCESS;
}

// What the heuristics propose in one of their modes.
std::vector<CudnnObject> propose_engines(void* graph, void* properties,
                                         cudnnBackendHeurMode_t mode) {
  const CudnnObject heuristics = make_cudnn_object(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_object(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (properties != nullptr) set_object(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
#else
  TASUKI_CHECK(properties == nullptr, "cuDNN before 9.8 knows only devices that are there");
#endif
  if (!is_accepted(heuristics, "no heuristics for a graph")) return {};
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                               nullptr) != CUDNN_STATUS_SUCCESS)
    return {};
  std::vector<CudnnObject> engines(static_cast<std::size_t>(count));
  std::vector<void*> objects;
  for (CudnnObject& engine : engines) {
    engine = make_cudnn_object(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    objects.push_back(engine.get());
  }
  if (cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                               objects.data()) != CUDNN_STATUS_SUCCESS)
    return {};
  engines.resize(static_cast<std::size_t>(count));
  return engines;
}

}  // namespace

CudnnObject make_cudnn_object(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
  return CudnnObject(made);
}

CudnnSizes plain_steps(const CudnnSizes& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

CudnnGraph::Id CudnnGraph::add(const CudnnArray& form, bool is_inner, bool is_number) {
  const auto id = static_cast<Id>(forms_.size()) + 1;
  CudnnObject object = make_cudnn_object(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(object, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  set(object, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, form.type);
  set_all(object, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, form.sizes);
  set_all(object, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, form.steps);
  set(object, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  set(object, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_inner);
  set(object, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, is_number);
  finalize(object);
  forms_.push_back(form);
  arrays_.push_back(std::move(object));
  return id;
}

CudnnGraph::Id CudnnGraph::array(const CudnnArray& form) {
  return add(form, false, false);
}

CudnnGraph::Id CudnnGraph::number() {
  return add({CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}}, false, true);
}

CudnnGraph::Id CudnnGraph::inner(cudnnDataType_t type, const CudnnSizes& sizes) {
  return add({type, sizes, plain_steps(sizes)}, true, false);
}

CudnnGraph::Id CudnnGraph::inner(const CudnnArray& form) {
  return add(form, true, false);
}

void CudnnGraph::multiply(Id a, Id b, Id c, const Counts& counts) {
  CudnnObject matmul = make_cudnn_object(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(matmul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finalize(matmul);
  CudnnObject operation = make_cudnn_object(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_object(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, object_of(a));
  set_object(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, object_of(b));
  set_object(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, object_of(c));
  set_object(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul.get());
  const auto limit = [&](cudnnBackendAttributeName_t name, Id count) {
    if (count != 0) set_object(operation, name, object_of(count));
  };
  limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, counts.rows);
  limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, counts.columns);
  limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, counts.terms);
  finalize(operation);
  parts_.push_back(std::move(matmul));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::add_pointwise(cudnnPointwiseMode_t function, cudnnDataType_t computed_in, Id x,
                               Id y, Id b, Id condition, std::int64_t axis) {
  CudnnObject pointwise = make_cudnn_object(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, function);
  set(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computed_in);
  if (axis >= 0) set(pointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  finalize(pointwise);
  CudnnObject operation = make_cudnn_object(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise.get());
  set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, object_of(x));
  set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, object_of(y));
  if (b != 0) set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, object_of(b));
  if (condition != 0)
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, object_of(condition));
  finalize(operation);
  parts_.push_back(std::move(pointwise));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::map(cudnnPointwiseMode_t function, Id x, Id y) {
  add_pointwise(function, CUDNN_DATA_FLOAT, x, y);
}

void CudnnGraph::combine(cudnnPointwiseMode_t function, Id x, Id b, Id y) {
  const bool is_logical = form_of(y).type == CUDNN_DATA_BOOLEAN;
  add_pointwise(function, is_logical ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT, x, y, b);
}

void CudnnGraph::select(Id condition, Id x, Id otherwise, Id y) {
  add_pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, y, otherwise, condition);
}

void CudnnGraph::index_along(std::int64_t axis, Id x, Id y) {
  add_pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, x, y, 0, 0, axis);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t function, Id x, Id y) {
  CudnnObject reduction = make_cudnn_object(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  set(reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, function);
  finalize(reduction);
  CudnnObject operation = make_cudnn_object(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_object(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction.get());
  set_object(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, object_of(x));
  set_object(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, object_of(y));
  finalize(operation);
  parts_.push_back(std::move(reduction));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reorder(Id x, Id y) {
  CudnnObject operation = make_cudnn_object(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_object(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, object_of(x));
  set_object(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, object_of(y));
  finalize(operation);
  operations_.push_back(std::move(operation));
}

CudnnObject CudnnGraph::finish(cudnnHandle_t handle) const {
  std::vector<void*> operations;
  for (const CudnnObject& operation : operations_) operations.push_back(operation.get());
  CudnnObject graph = make_cudnn_object(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_all(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  if (handle != nullptr) set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  return is_accepted(graph, "a graph is not supported") ? std::move(graph) : nullptr;
}

std::vector<CudnnObject> propose_engines(void* graph, void* properties) {
  std::vector<CudnnObject> engines = propose_engines(graph, properties, CUDNN_HEUR_MODE_A);
  return engines.empty() ? propose_engines(graph, properties, CUDNN_HEUR_MODE_FALLBACK)
                         : std::move(engines);
}

CudnnPlan::CudnnPlan(CudnnObject graph, CudnnObject engine, CudnnObject plan,
                     std::size_t workspace_bytes)
    : graph_(std::move(graph)),
      engine_(std::move(engine)),
      plan_(std::move(plan)),
      workspace_bytes_(workspace_bytes) {}

void CudnnPlan::run(cudnnHandle_t handle, std::span<const std::pair<CudnnGraph::Id, void*>> arrays,
                    void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : arrays) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  const CudnnObject pack = make_cudnn_object(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_all(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
  set_all(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  finalize(pack);
  check_cudnn(cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

std::unique_ptr<CudnnPlan> make_plan(const CudnnGraph& graph, cudnnHandle_t handle,
                                     std::size_t workspace_limit) {
  CudnnObject finished = graph.finish(handle);
  if (finished == nullptr) return nullptr;
  for (CudnnObject& engine : propose_engines(finished.get(), nullptr)) {
    CudnnObject plan = make_cudnn_object(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    set_object(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.get());
    if (!is_accepted(plan, "an engine was not compiled")) continue;
    std::int64_t bytes = 0, count = 0;
    check_cudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &bytes),
                "cudnnBackendGetAttribute");
    if (static_cast<std::size_t>(bytes) > workspace_limit) continue;
    return std::make_unique<CudnnPlan>(std::move(finished), std::move(engine), std::move(plan),
                                       static_cast<std::size_t>(bytes));
  }
  return nullptr;
}

}  // namespace tasuki

// Graphs of cuDNN's operations, through its backend interface (cudnn_graph.h): cuDNN looks for
// engines that compute a whole graph, with one kernel or a few, and compiles them for the device.
//
//   CudnnGraph graph;
//   const auto x = graph.array({CUDNN_DATA_HALF, sizes, steps}), y = graph.array(...);
//   graph.map(CUDNN_POINTWISE_EXP, x, y);
//   const std::unique_ptr<CudnnPlan> plan = make_plan(graph, handle, workspace_limit);
//   if (plan != nullptr) plan->run(handle, {{x, x_memory}, {y, y_memory}}, workspace);
//
// Arrays have four axes. Errors of calls that can only fail by a mistake of ours are thrown; what
// cuDNN does not support is an answer.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tasuki {

// One of the backend interface's objects.
struct CudnnObjectRelease {
  void operator()(void* object) const { static_cast<void>(cudnnBackendDestroyDescriptor(object)); }
};
using CudnnObject = std::unique_ptr<void, CudnnObjectRelease>;
CudnnObject make_cudnn_object(cudnnBackendDescriptorType_t type);

using CudnnSizes = std::array<std::int64_t, 4>;

// `steps`: from one element to the next along each axis, in elements.
struct CudnnArray {
  cudnnDataType_t type;
  CudnnSizes sizes, steps;
};
// The steps of an array without gaps.
CudnnSizes plain_steps(const CudnnSizes& sizes);

class CudnnGraph {
 public:
  using Id = std::int64_t;  // of an array of the graph

  // In memory, at a multiple of 16 bytes, which the caller passes to run().
  Id array(const CudnnArray& form);
  // One float32 in the host's memory, which the caller passes to run() as well.
  Id number();
  // Between operations only; without gaps, unless steps are given.
  Id inner(cudnnDataType_t type, const CudnnSizes& sizes);
  Id inner(const CudnnArray& form);

  // c = a b, of the matrices of the last two axes. Sums are float32. Only so many rows of a,
  // columns of b and terms count for each item: int32 arrays of items x 1 x 1 x 1, or 0 for all.
  struct Counts {
    Id rows = 0, columns = 0, terms = 0;
  };
  void multiply(Id a, Id b, Id c, const Counts& counts);
  // y = f(x); y = f(x, b), element by element, where axes of size 1 of b are repeated.
  void map(cudnnPointwiseMode_t function, Id x, Id y);
  void combine(cudnnPointwiseMode_t function, Id x, Id b, Id y);
  // y = condition ? x : otherwise
  void select(Id condition, Id x, Id otherwise, Id y);
  // y: the index of each element of x along an axis. y is int32.
  void index_along(std::int64_t axis, Id x, Id y);
  // Over the axes in which y has size 1.
  void reduce(cudnnReduceTensorOp_t function, Id x, Id y);
  // The same elements at other places: y has x's steps and sizes in another order.
  void reorder(Id x, Id y);

  // The graph of these operations for a device: a handle's, or, if that is null, one that only its
  // properties describe (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR). nullptr: cuDNN refuses it.
  CudnnObject finish(cudnnHandle_t handle) const;

 private:
  Id add(const CudnnArray& form, bool is_inner, bool is_number);
  const CudnnArray& form_of(Id id) const { return forms_[static_cast<std::size_t>(id - 1)]; }
  void* object_of(Id id) const { return arrays_[static_cast<std::size_t>(id - 1)].get(); }
  void add_pointwise(cudnnPointwiseMode_t function, cudnnDataType_t computed_in, Id x, Id y,
                     Id b = 0, Id condition = 0, std::int64_t axis = -1);

  std::vector<CudnnArray> forms_;
  std::vector<CudnnObject> arrays_, operations_, parts_;
};

// Engines for a graph, as cuDNN's heuristics propose them, the fastest first; none: it is not
// supported. `properties`: of the device, where the graph was finished without a handle.
std::vector<CudnnObject> propose_engines(void* graph, void* properties);

class CudnnPlan {
 public:
  // Takes what finish() and propose_engines() have made.
  CudnnPlan(CudnnObject graph, CudnnObject engine, CudnnObject plan, std::size_t workspace_bytes);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Queues the computation on the handle's stream. `workspace`: workspace_bytes() on the device.
  void run(cudnnHandle_t handle, std::span<const std::pair<CudnnGraph::Id, void*>> arrays,
           void* workspace) const;

 private:
  CudnnObject graph_, engine_, plan_;
  std::size_t workspace_bytes_;
};

// The first of the proposed engines that can be compiled and needs no more than so many bytes;
// nullptr: there is none.
std::unique_ptr<CudnnPlan> make_plan(const CudnnGraph& graph, cudnnHandle_t handle,
                                     std::size_t workspace_limit);

}  // namespace tasuki

// How the CPU backend uses oneDNN: one engine for all; per thread one stream, one scratchpad and
// one cache of primitives, because a primitive must run in the thread that created it.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// One of oneDNN's orders of elements. Equal descriptors share one object, so that layouts are
// compared and hashed by address.
struct DnnlLayout final : Layout {
  explicit DnnlLayout(const dnnl::memory::desc& d) : desc(d) {}
  dnnl::memory::desc desc;
};

// Plain row-major of this shape, float32 or bfloat16.
dnnl::memory::desc plain_desc(const Shape& shape, DType type = DType::float32);
// plain_desc() with the order left to the primitive.
dnnl::memory::desc any_desc(const Shape& shape, DType type = DType::float32);
// The descriptor of the tensor's memory.
dnnl::memory::desc desc_of(const Tensor& tensor);
// The order as the Layout of a tensor: nullptr for plain row-major order, and for descriptors that
// never describe a tensor.
std::shared_ptr<const Layout> layout_of(const dnnl::memory::desc& desc);
// New memory in this order; the shape is the descriptor's.
Tensor empty_in(const dnnl::memory::desc& desc);
// New memory of the same shape and layout.
Tensor empty_like(const Tensor& tensor);
// The same values in this order and type; shares memory if they are in it already.
Tensor reordered(const Tensor& source, const dnnl::memory::desc& desc);
// Writes (or adds) the values to a tensor of the same shape in another order or type.
void reorder_into(const Tensor& destination, const Tensor& source, bool accumulate);
// Elements in memory, including those that pad a blocked order: what element-wise loops process if
// all their tensors have the same layout.
std::int64_t stored_count(const Tensor& tensor);

dnnl::stream& dnnl_stream();

// Inside an OpenMP region oneDNN gets one thread, but it would plan its loops for as many as the
// region could have. While this object exists it plans for one.
class PlannedThreads {
 public:
  PlannedThreads();
  ~PlannedThreads();
  PlannedThreads(const PlannedThreads&) = delete;
  PlannedThreads& operator=(const PlannedThreads&) = delete;

 private:
  int threads_before_ = 0;  // 0: outside of such a region
};

// Runs `action`; a failure of oneDNN becomes an error that contains what(), such as "conv2d of
// 100x3x32x32 with ...".
template <class What, class Action>
decltype(auto) with_dnnl(const What& what, Action&& action) {
  const PlannedThreads planned;
  try {
    return std::forward<Action>(action)();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    fail(ErrorKind::internal, "oneDNN cannot do {}: {} ({})", what(), error.what(),
         dnnl_status2str(error.status));
  }
}
// Checks what functions of its C interface return.
template <class What>
void check_dnnl(dnnl_status_t status, const What& what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success)
    fail(ErrorKind::internal, "oneDNN cannot do {} ({})", what(), dnnl_status2str(status));
}

// Zeros behind each array in bfloat16 that a DnnlOperation makes, in elements: oneDNN 2.6.3's
// convolutions with strides read up to a horizontal stride beyond the end of their images. They
// multiply by 0 what they find, which must be a number for that.
inline constexpr std::int64_t bfloat16_margin = 128;

// A primitive and the orders of its arguments, ready to run on any addresses.
class DnnlOperation {
 public:
  // `arguments`: DNNL_ARG_* with the descriptors that the primitive expects, DNNL_ARG_SCRATCHPAD
  // included.
  DnnlOperation(dnnl::primitive primitive,
                std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments);

  const dnnl::memory::desc& desc(int argument) const { return arguments_.at(argument).desc; }
  // New memory for a result.
  Tensor make(int argument) const;
  // The tensor in the order and type that the primitive expects.
  Tensor fit(int argument, const Tensor& tensor) const;
  // Runs on these addresses and waits for the end.
  void run(std::initializer_list<std::pair<int, const void*>> addresses);

 private:
  struct Argument {
    dnnl::memory::desc desc;
    std::shared_ptr<const Layout> layout;
    Shape shape;
    DType type;
  };
  dnnl::primitive primitive_;
  bool uses_sgemm_;
  std::unordered_map<int, Argument> arguments_;
  std::unordered_map<int, dnnl::memory> memory_;
};

// Everything that an operation depends on: its kind, the thread's number of threads, shapes,
// layouts and settings.
class OperationKey {
 public:
  enum Kind : std::int64_t {
    reorder,
    rounded_product,
    rounded_block,
    recurrent,
    conv,
    conv_data,
    conv_weights,
    pool,
    pool_backward,
    batch_norm,
    batch_norm_inference,
    batch_norm_backward,
    lrn,
    lrn_backward,
  };
  explicit OperationKey(Kind kind);

  OperationKey& add(std::int64_t value);
  OperationKey& add(const Shape& shape);
  OperationKey& add(const std::shared_ptr<const Layout>& layout);
  OperationKey& add(const Tensor& tensor);  // shape, type and layout

  std::size_t hash() const { return static_cast<std::size_t>(hash_); }
  friend bool operator==(const OperationKey& a, const OperationKey& b);

 private:
  std::array<std::int64_t, 48> words_;
  std::size_t size_ = 0;
  std::uint64_t hash_ = 0;
};

struct OperationKeyHash {
  std::size_t operator()(const OperationKey& key) const { return key.hash(); }
};

using OperationPointer = std::shared_ptr<DnnlOperation>;

// The calling thread's cache; nullptr if the operation is not there yet.
OperationPointer find_operation(const OperationKey& key);
void keep_operation(const OperationKey& key, const OperationPointer& operation);

// The operation for this key; if it does not exist, `make` returns the new DnnlOperation.
template <class Make>
OperationPointer cached_operation(const OperationKey& key, Make&& make) {
  if (OperationPointer found = find_operation(key)) return found;
  auto made = std::make_shared<DnnlOperation>(std::forward<Make>(make)());
  keep_operation(key, made);
  return made;
}

}  // namespace tasuki

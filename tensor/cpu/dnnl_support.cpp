#include "tensor/cpu/dnnl_support.hpp"

#include <omp.h>

#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>

#include "core/hash.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/filter_order.hpp"
#include "tensor/host_memory.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

dnnl::memory::dims dims_of(const Shape& shape) {
  if (shape.rank() == 0) return {1};
  return {shape.begin(), shape.end()};
}

Shape shape_of(const dnnl::memory::desc& desc) {
  return Shape(axis_sizes(desc));
}

dnnl::memory::data_type dnnl_type(DType type) {
  TASUKI_CHECK(type == DType::float32 || type == DType::bfloat16,
               "expected a float32 or bfloat16 tensor for oneDNN, found {}", name_of(type));
  return type == DType::float32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Elements in memory of a tensor; anything else (workspaces) counts as bytes.
DType type_of(const dnnl::memory::desc& desc) {
  const dnnl::memory::data_type type = element_type(desc);
  if (type == dnnl::memory::data_type::f32) return DType::float32;
  return type == dnnl::memory::data_type::bf16 ? DType::bfloat16 : DType::uint8;
}

// Hash of what distinguishes orders of elements: sizes, strides and blocks.
struct DescHash {
  std::size_t operator()(const dnnl::memory::desc& desc) const {
    const BlockedOrder order = blocked_order(desc);
    std::uint64_t hash = static_cast<std::uint64_t>(element_type(desc));
    for (const auto numbers : {axis_sizes(desc), order.strides, order.sizes, order.axes})
      hash = hash_bytes(std::as_bytes(numbers), hash);
    return hash;
  }
};

// Grows to the largest size that a primitive of this thread needed.
void* scratchpad(std::size_t bytes) {
  thread_local std::shared_ptr<Storage> storage;
  if (!storage || storage->bytes() < bytes) {
    storage.reset();
    storage = allocate_host(bytes);
  }
  spoil_unwritten(storage->data(), bytes);
  return storage->data();
}

using Cache = std::unordered_map<OperationKey, OperationPointer, OperationKeyHash>;
// Far above what a training run needs; limits the memory of a program with ever new shapes.
constexpr std::size_t cache_limit = 2048;

Cache& cache() {
  thread_local Cache operations;
  return operations;
}

// Identifies the kind by oneDNN's name of the implementation: "gemm:jit", "x64:gemm:jit".
bool is_built_on_gemm(const dnnl::primitive& primitive) {
  const char* name = nullptr;
  const dnnl_status_t status =
      dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &name);
  return status == dnnl_success && std::string_view(name).find("gemm") != std::string_view::npos;
}

}  // namespace

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

dnnl::memory::desc plain_desc(const Shape& shape, DType type) {
  const dnnl::memory::dims dims = dims_of(shape);
  dnnl::memory::dims strides(dims.size(), 1);
  for (std::size_t axis = dims.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<dnnl::memory::dim>(dims[axis], 1);
  return {dims, dnnl_type(type), strides};
}

dnnl::memory::desc any_desc(const Shape& shape, DType type) {
  return {dims_of(shape), dnnl_type(type), dnnl::memory::format_tag::any};
}

dnnl::memory::desc desc_of(const Tensor& tensor) {
  if (tensor.is_plain()) return plain_desc(tensor.shape(), tensor.dtype());
  return static_cast<const DnnlLayout&>(*tensor.layout()).desc;
}

std::shared_ptr<const Layout> layout_of(const dnnl::memory::desc& desc) {
  if (type_of(desc) == DType::uint8 || desc == plain_desc(shape_of(desc), type_of(desc)))
    return nullptr;
  // Kept forever, because keys of cached operations hold their addresses: some hundred bytes for
  // each shape that a blocked activation ever had, so short batches and image sizes add to it.
  static std::mutex mutex;
  static auto* const known =
      new std::unordered_map<dnnl::memory::desc, std::shared_ptr<const Layout>, DescHash>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Layout>& layout = (*known)[desc];
  if (!layout) layout = std::make_shared<DnnlLayout>(desc);
  return layout;
}

Tensor empty_in(const dnnl::memory::desc& desc) {
  return {allocate_host(desc.get_size()), 0, shape_of(desc), type_of(desc), layout_of(desc)};
}

Tensor empty_like(const Tensor& tensor) {
  return tensor.is_plain() ? Tensor::empty(tensor.shape(), tensor.dtype())
                           : empty_in(desc_of(tensor));
}

void reorder_into(const Tensor& destination, const Tensor& source, bool accumulate) {
  TASUKI_CHECK(destination.shape() == source.shape(), "cannot reorder {} into {}",
               source.shape().text(), destination.shape().text());
  if (source.count() == 0 || rearrange_filters(destination, source, accumulate)) return;
  const auto what = [&] { return fmt::format("a reorder of {}", source.shape().text()); };
  with_dnnl(what, [&] {
    OperationKey key(OperationKey::reorder);
    key.add(source).add(destination).add(accumulate);
    const auto operation = cached_operation(key, [&] {
      dnnl::primitive_attr attr = primitive_attributes();
      if (accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        attr.set_post_ops(sum);
      }
      const dnnl::reorder::primitive_desc pd(dnnl_engine(), desc_of(source), dnnl_engine(),
                                             desc_of(destination), attr);
      return DnnlOperation(dnnl::reorder(pd), {{DNNL_ARG_FROM, pd.src_desc()},
                                               {DNNL_ARG_TO, pd.dst_desc()},
                                               {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    });
    operation->run({{DNNL_ARG_FROM, source.raw()}, {DNNL_ARG_TO, destination.raw()}});
  });
}

Tensor reordered(const Tensor& source, const dnnl::memory::desc& desc) {
  if (desc_of(source) == desc) return source;
  Tensor made = empty_in(desc);
  reorder_into(made, source, false);
  return made;
}

std::int64_t stored_count(const Tensor& tensor) {
  if (tensor.is_plain()) return tensor.count();
  return static_cast<std::int64_t>(desc_of(tensor).get_size() / size_of(tensor.dtype()));
}

PlannedThreads::PlannedThreads() {
  if (!omp_in_parallel()) return;
  threads_before_ = omp_get_max_threads();
  omp_set_num_threads(1);
}

PlannedThreads::~PlannedThreads() {
  if (threads_before_ > 0) omp_set_num_threads(threads_before_);
}

DnnlOperation::DnnlOperation(dnnl::primitive primitive,
                             std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments)
    : primitive_(std::move(primitive)), uses_sgemm_(is_built_on_gemm(primitive_)) {
  for (const auto& [argument, desc] : arguments) {
    arguments_.emplace(argument, Argument{desc, layout_of(desc), shape_of(desc), type_of(desc)});
    // Primitives refuse arguments that they do not have, such as a bias.
    if (!desc.is_zero())
      memory_.emplace(argument, dnnl::memory(desc, dnnl_engine(), DNNL_MEMORY_NONE));
  }
}

Tensor DnnlOperation::make(int argument) const {
  const Argument& wanted = arguments_.at(argument);
  const std::size_t bytes = wanted.desc.get_size();
  if (wanted.type != DType::bfloat16)
    return {allocate_host(bytes), 0, wanted.shape, wanted.type, wanted.layout};
  constexpr std::size_t margin = bfloat16_margin * size_of(DType::bfloat16);
  auto storage = allocate_host(bytes + margin);
  std::memset(static_cast<std::byte*>(storage->data()) + bytes, 0, margin);
  return {std::move(storage), 0, wanted.shape, wanted.type, wanted.layout};
}

Tensor DnnlOperation::fit(int argument, const Tensor& tensor) const {
  const Argument& wanted = arguments_.at(argument);
  if (tensor.layout() == wanted.layout && tensor.shape() == wanted.shape &&
      tensor.dtype() == wanted.type)
    return tensor;
  Tensor made = make(argument);
  reorder_into(made, tensor, false);
  return made;
}

void DnnlOperation::run(std::initializer_list<std::pair<int, const void*>> addresses) {
  dnnl::stream& stream = dnnl_stream();
  for (const auto& [argument, address] : addresses)
    if (!arguments_.at(argument).desc.is_zero()) set_address(memory_.at(argument), address, stream);
  if (const auto pad = arguments_.find(DNNL_ARG_SCRATCHPAD); pad != arguments_.end())
    if (const std::size_t bytes = pad->second.desc.get_size(); bytes > 0)
      set_address(memory_.at(DNNL_ARG_SCRATCHPAD), scratchpad(bytes), stream);
  if (uses_sgemm_) protect_team();
  primitive_.execute(stream, memory_);
  stream.wait();
}

OperationKey::OperationKey(Kind kind) {
  add(kind);
  add(cpu_threads());
}

OperationKey& OperationKey::add(std::int64_t value) {
  TASUKI_CHECK(size_ < words_.size(), "an operation's key holds at most {} numbers", words_.size());
  words_[size_++] = value;
  hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15ull;
  hash_ ^= hash_ >> 29;
  return *this;
}

OperationKey& OperationKey::add(const Shape& shape) {
  add(shape.rank());
  for (const std::int64_t size : shape) add(size);
  return *this;
}

OperationKey& OperationKey::add(const std::shared_ptr<const Layout>& layout) {
  return add(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(layout.get())));
}

OperationKey& OperationKey::add(const Tensor& tensor) {
  return add(tensor.shape()).add(static_cast<std::int64_t>(tensor.dtype())).add(tensor.layout());
}

bool operator==(const OperationKey& a, const OperationKey& b) {
  return a.hash_ == b.hash_ && std::equal(a.words_.begin(), a.words_.begin() + a.size_,
                                          b.words_.begin(), b.words_.begin() + b.size_);
}

OperationPointer find_operation(const OperationKey& key) {
  const auto found = cache().find(key);
  return found == cache().end() ? nullptr : found->second;
}

void keep_operation(const OperationKey& key, const OperationPointer& operation) {
  if (cache().size() >= cache_limit) cache().clear();
  cache().emplace(key, operation);
}

}  // namespace tasuki

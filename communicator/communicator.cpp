// Ranks, memory, reductions and checks of all kinds of communicators. Gradients are in
// gradients.cpp, arrays in mpi/arrays.cpp, values on GPUs in gpu/communicator_on_gpu.cpp.
#include "communicator/communicator.hpp"

#include <algorithm>
#include <utility>

#include "communicator/bytes.hpp"
#include "communicator/exchanges_under_way.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/host_values.hpp"
#include "communicator/mpi/collective_check.hpp"
#include "communicator/mpi/communicator_id.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/ranks.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "core/hash.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

std::string text_of(const Tensor& tensor, ReduceOp op) {
  return fmt::format("{} of {} {}", name_of(op), name_of(tensor.dtype()), tensor.shape().text());
}

void check_reducible(const char* operation, const Tensor& tensor) {
  TASUKI_CHECK(tensor.defined(), "{} of an undefined tensor", operation);
  if (tensor.dtype() == DType::uint8)
    fail(ErrorKind::usage, "{}: uint8 values cannot be reduced; convert them first", operation);
}

}  // namespace

Communicator::Communicator(const CommunicatorSetup& setup)
    : setup_(setup),
      handles_(std::make_unique<Handles>(mpi_ranks(setup))),
      topology_(discover_topology(handles_->collectives.get())),
      id_(make_communicator_id(setup_.name, handles_->collectives.get())),
      check_(CollectiveCheck::make(setup_.name, handles_->collectives.get(), topology_,
                                   [this](MpiComm own) { return handles_->add(std::move(own)); })),
      exchanges_(std::make_unique<ExchangesUnderWay>(id_, operations_,
                                                     [this] { handles_->departures.look(); })) {
  handles_->departures.set_id(id_);
  setup_.ranks = nullptr;  // owned by the caller; not valid after this constructor
}

// The thread uses all members, exchanges_ included, so it must be idle before any of them goes.
Communicator::~Communicator() {
  exchanges_->wait_for_thread();
}

const std::string& Communicator::name() const {
  return setup_.chosen_by.empty() ? setup_.name : setup_.chosen_by;
}

std::string Communicator::describe() const {
  if (setup_.chosen_by.empty()) return describe_kind();
  return fmt::format("{} (chosen by {}: {})", describe_kind(), setup_.chosen_by, setup_.reason);
}

std::string Communicator::describe_kind() const {
  return setup_.name;
}

std::string Communicator::text_of_wire(const char* where) const {
  if (options().wire_dtype == DType::float32) return "";
  return fmt::format(", {} {}", name_of(options().wire_dtype), where);
}

const MpiComm& Communicator::mpi() const {
  return handles_->users;
}

const MpiComm& Communicator::comm() const {
  check_free();
  return handles_->collectives;
}

MpiComm Communicator::split_ranks(int color, int key) const {
  return MpiComm::refer_to(handles_->add(MpiComm::split(comm().get(), color, key)));
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) const {
  const CollectiveScope scope(*this, Waiting::split, "split");
  if (color < 0) fail(ErrorKind::usage, "split: expected a color of 0 or more, found {}", color);
  const MpiComm part = MpiComm::split(comm().get(), color, key);
  return create_communicator(
      CommunicatorSetup{.name = name(), .options = options(), .ranks = &part});
}

void Communicator::barrier() {
  const CollectiveScope scope(*this, Waiting::barrier, "barrier");
  TASUKI_MPI(MPI_Barrier, comm().get());
}

std::shared_ptr<Storage> Communicator::allocate(std::size_t bytes, Device device) {
  const CollectiveScope scope(*this, Waiting::allocate, bytes, "allocate");
  return allocate_memory(bytes, device);
}

std::shared_ptr<Storage> Communicator::allocate_memory(std::size_t bytes, Device device) {
  const bool own_gpu = size() > 1 && has_gpu_groups() && device == options().device;
  auto storage = own_gpu && !device.is_cpu() ? gpu().channel().allocate(bytes)
                                             : backend(device).allocate(bytes, device);
  const Shape shape{static_cast<std::int64_t>(bytes)};
  Tensor(storage, 0, shape, DType::uint8).fill(0);
  return storage;
}

void Communicator::allreduce(const Tensor& tensor, ReduceOp op, bool is_agreed) {
  check_reducible("allreduce", tensor);
  const CollectiveScope scope(*this, Waiting::allreduce, tensor.bytes(), "allreduce of {} {} ({})",
                              tensor.count(), name_of(tensor.dtype()), name_of(op));
  check_free();
  if (size() == 1) return;
  const bool on_gpu = is_on_gpu(tensor);
  if (!is_agreed && (on_gpu || !checks_agreement()))
    require_agreement("allreduce", text_of(tensor, op));
  if (on_gpu) return gpu().in_order([&] { combine_on_gpu(tensor.reshape({tensor.count()}), op); });
  const HostValues values(tensor);
  if (is_agreed)
    combine_agreed(values.tensor(), op);
  else
    combine(values.tensor(), op);
  values.write_back();
}

void Communicator::combine_agreed(const Tensor& values, ReduceOp op) {
  combine(values, op);
}

void Communicator::combine(const Tensor& values, ReduceOp op) {
  tasuki::allreduce(values.raw(), values.count(), values.dtype(), op, comm().get(), call_bytes());
}

void Communicator::reduce(const Tensor& tensor, ReduceOp op, int root) {
  check_reducible("reduce", tensor);
  const CollectiveScope scope(*this, Waiting::reduce, tensor.bytes(),
                              "reduce of {} {} ({}) to rank {}", tensor.count(),
                              name_of(tensor.dtype()), name_of(op), root);
  check_root(*this, "reduce", root);
  require_agreement("reduce", text_of(tensor, op));
  const HostValues values(tensor);
  tasuki::reduce(values.tensor().raw(), tensor.count(), tensor.dtype(), op, root, comm().get(),
                 call_bytes());
  if (rank() == root) values.write_back();
}

Tensor Communicator::reduce_scatter(const Tensor& tensor, ReduceOp op) {
  check_reducible("reduce_scatter", tensor);
  const CollectiveScope scope(*this, Waiting::reduce_scatter, tensor.bytes(),
                              "reduce_scatter of {} {} ({})", tensor.count(),
                              name_of(tensor.dtype()), name_of(op));
  TASUKI_CHECK(tensor.shape().rank() > 0,
               "reduce_scatter divides axis 0, which a scalar does not have");
  require_agreement("reduce_scatter", text_of(tensor, op));
  const HostValues values(tensor);
  const std::int64_t items = tensor.shape()[0];
  const Range dealt = part_of(items, size(), rank());
  const Tensor mine = values.tensor().slice(dealt.begin, dealt.end);
  if (size() == 1) return mine.clone().to(options().device);

  const Tensor own = Tensor::empty(mine.shape(), tensor.dtype());
  const std::int64_t elements = items == 0 ? 0 : tensor.count() / items;  // of an item
  std::vector<Range> parts;
  for (int owner = 0; owner < size(); ++owner) {
    const Range part = part_of(items, size(), owner);
    parts.push_back({part.begin * elements, part.end * elements});
  }
  combine_part(values.tensor(), parts, own, op);
  return own.to(options().device);
}

void Communicator::combine_part(const Tensor& values, std::span<const Range> parts,
                                const Tensor& own, ReduceOp op) {
  tasuki::reduce_scatter(values.raw(), own.raw(), parts, values.dtype(), op, comm().get(),
                         call_bytes());
}

void Communicator::require_agreement(const char* operation, const std::string& text,
                                     std::span<std::int64_t> maxima) {
  // All hashes are equal if the largest and the smallest are, which takes one small reduction.
  const auto hash = static_cast<std::int64_t>(hash_text(text) >> 1);
  std::vector<std::int64_t> numbers{hash, -hash};
  numbers.insert(numbers.end(), maxima.begin(), maxima.end());
  tasuki::allreduce(numbers.data(), std::ssize(numbers), DType::int64, ReduceOp::max, comm().get());
  std::copy(numbers.begin() + 2, numbers.end(), maxima.begin());
  if (numbers[0] == -numbers[1]) return;
  const auto texts = allgather_bytes(*this, std::as_bytes(std::span(text)));
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const Bytes& bytes) { return bytes != texts.front(); });
  throw Error(
      ErrorKind::disagreement,
      fmt::format("{}: rank 0 gave {} but rank {} gave {}; all must agree", operation,
                  bytes_to_text(texts.front()), other - texts.begin(), bytes_to_text(*other)),
      topology_.shared_error_scope);
}

void Communicator::check_free() const {
  TASUKI_CHECK(!exchanges_->any() || exchanges_->is_at_work(),
               "the communicator is busy with an exchange of gradients; call wait() first");
}

}  // namespace tasuki

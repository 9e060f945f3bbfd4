#include "tasuki/communicator/mpi_communicator.hpp"

#include <algorithm>
#include <atomic>
#include <functional>

#include "tasuki/communicator/gpu/gpu_exchange.hpp"
#include "tasuki/communicator/mpi/background_thread.hpp"
#include "tasuki/communicator/mpi/communicator_id.hpp"
#include "tasuki/communicator/mpi/host_values.hpp"
#include "tasuki/communicator/mpi/transfer.hpp"
#include "tasuki/core/hash.hpp"
#include "tasuki/core/host_name.hpp"
#include "tasuki/core/log.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

// An exchange that something else works on until wait() calls `finish`.
class Exchange : public PendingExchange {
 public:
  // `under_way` counts exchanges; nullptr for one whose work is all in `finish`.
  Exchange(std::function<void()> finish, std::shared_ptr<std::atomic<int>> under_way)
      : finish_(std::move(finish)), under_way_(std::move(under_way)) {
    if (under_way_) ++*under_way_;
  }
  // An exchange given up half-way would leave its buffer in use.
  ~Exchange() override {
    if (!finish_ || !under_way_) return;
    --*under_way_;
    try {
      finish_();
    } catch (const std::exception& error) {
      log_warning("an exchange of gradients that nobody waited for failed: {}", error.what());
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void wait() override {
    TASUKI_CHECK(finish_ != nullptr, "wait() was called twice on a gradient exchange");
    if (under_way_) --*under_way_;
    std::exchange(finish_, nullptr)();
  }

 private:
  std::function<void()> finish_;
  std::shared_ptr<std::atomic<int>> under_way_;
};

std::string text_of(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), tensor.shape().text());
}

std::string text_of(const Tensor& tensor, ReduceOp op) {
  return fmt::format("{} of {}", name_of(op), text_of(tensor));
}

Tensor flat(const Tensor& tensor) {
  return tensor.reshape({tensor.count()});
}

void check_reducible(const char* operation, const Tensor& tensor) {
  TASUKI_CHECK(tensor.defined(), "{} of an undefined tensor", operation);
  if (tensor.dtype() == DType::uint8)
    fail(ErrorKind::usage, "{}: uint8 values cannot be reduced; convert them first", operation);
}

Topology discover_topology(MPI_Comm comm) {
  const MpiComm node = MpiComm::split_by_memory(comm);
  int rank = 0, size = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &size);

  int group = rank;  // the node's smallest rank
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &group, 1, MPI_INT, MPI_MIN, node.get());
  std::vector<int> groups(static_cast<std::size_t>(size));
  TASUKI_MPI(MPI_Allgather, &group, 1, MPI_INT, groups.data(), 1, MPI_INT, comm);

  constexpr int longest = 256;
  std::string own = host_name();
  own.resize(longest);
  std::string names(groups.size() * longest, '\0');
  TASUKI_MPI(MPI_Allgather, own.data(), longest, MPI_CHAR, names.data(), longest, MPI_CHAR, comm);
  std::vector<std::string> hosts;
  for (std::size_t other = 0; other < groups.size(); ++other)
    hosts.emplace_back(names.c_str() + other * longest);
  Topology topology = make_topology(rank, groups, hosts);
  topology.shared_error_scope = scope_of_shared_error(comm);
  return topology;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::string name, MPI_Comm comm,
                                 const CommunicatorOptions& options)
    : name_(std::move(name)),
      options_(options),
      comm_(MpiComm::duplicate(comm)),
      messages_(MpiComm::duplicate(comm)),
      id_(make_communicator_id(name_, comm_.get())),
      topology_(discover_topology(comm)) {}

MpiCommunicator::~MpiCommunicator() = default;

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  const auto waiting = wait_in(Waiting::split);
  if (color < 0) fail(ErrorKind::usage, "split: color {}; expected a number from 0", color);
  const MpiComm part = MpiComm::split(comm(), color, key);
  return create_communicator(name_, part.get(), options_);
}

void MpiCommunicator::barrier() {
  const auto waiting = wait_in(Waiting::barrier);
  TASUKI_MPI(MPI_Barrier, comm());
}

std::shared_ptr<Storage> MpiCommunicator::allocate(std::size_t bytes, Device device) {
  const bool own_gpu = size() > 1 && has_gpu_groups() && device == options_.device;
  auto storage = own_gpu && !device.is_cpu() ? gpu().channel().allocate(bytes)
                                             : backend(device).allocate(bytes, device);
  const Shape shape{static_cast<std::int64_t>(bytes)};
  Tensor(storage, 0, shape, DType::uint8).fill(0);
  return storage;
}

void MpiCommunicator::combine(const Tensor& values, ReduceOp op) {
  tasuki::allreduce(values.raw(), values.count(), values.dtype(), op, comm());
}

void MpiCommunicator::sum_gradients(const GradientView& gradients) {
  const auto waiting = wait_in(Waiting::sum_gradients, gradients.arena.bytes());
  if (is_on_gpu(gradients.arena)) return sum_gradients_on_gpu(gradients);
  allreduce(gradients.arena, ReduceOp::sum);
}

std::unique_ptr<PendingExchange> MpiCommunicator::start_sum_gradients(
    const GradientView& gradients) {
  // The segments' span may end before the exchange does.
  std::function<void()> work =
      [this, arena = gradients.arena,
       segments = std::vector(gradients.segments.begin(), gradients.segments.end()),
       divisor = gradients.divisor] {
        sum_gradients({arena, segments, divisor});
      };
  std::function<void()> join;
  if (is_on_gpu(gradients.arena)) {
    const auto place = std::make_shared<GpuExchange::Background>(gpu().background_start());
    work = [this, place, work] { gpu().in_background(*place, work); };
    join = [this, place, arena = gradients.arena] {  // whose memory stays in use until then
      if (place->end) gpu().channel().let_backend_follow(*place->end);
    };
    if (only_asks_gpu()) {
      start_on_gpu(work);
      return std::make_unique<Exchange>(join, under_way_);
    }
  }
  int provided = MPI_THREAD_SINGLE;
  TASUKI_MPI(MPI_Query_thread, &provided);
  if (provided < MPI_THREAD_MULTIPLE)
    return std::make_unique<Exchange>(
        [work, join] {
          work();
          if (join) join();
        },
        nullptr);
  if (!background_) background_ = std::make_unique<BackgroundThread>();
  const std::shared_future<void> result = background_->start(std::move(work));
  return std::make_unique<Exchange>(
      [result, join] {
        const WaitScope waiting(Waiting::exchange);
        result.get();
        if (join) join();
      },
      under_way_);
}

void MpiCommunicator::bcast_data(const Tensor& parameters) {
  TASUKI_CHECK(parameters.defined(), "bcast_data of an undefined tensor");
  const auto waiting = wait_in(Waiting::bcast_data, parameters.bytes());
  require_agreement("bcast_data", text_of(parameters));
  if (is_on_gpu(parameters)) return gpu().in_order([&] { bcast_on_gpu(parameters); });
  HostValues values(parameters);
  tasuki::bcast(values.bytes(), 0, comm());
  values.write_back();
}

void MpiCommunicator::allreduce(const Tensor& tensor, ReduceOp op) {
  check_reducible("allreduce", tensor);
  const auto waiting = wait_in(Waiting::allreduce, tensor.bytes());
  check_free();
  if (size() == 1) return;
  const bool on_gpu = is_on_gpu(tensor);
  if (on_gpu || !checks_agreement()) require_agreement("allreduce", text_of(tensor, op));
  if (on_gpu) return gpu().in_order([&] { combine_on_gpu(flat(tensor), op); });
  HostValues values(tensor);
  combine(values.tensor(), op);
  values.write_back();
}

void MpiCommunicator::reduce(const Tensor& tensor, ReduceOp op, int root) {
  check_reducible("reduce", tensor);
  const auto waiting = wait_in(Waiting::reduce, tensor.bytes());
  check_root("reduce", root);
  require_agreement("reduce", text_of(tensor, op));
  HostValues values(tensor);
  tasuki::reduce(values.tensor().raw(), tensor.count(), tensor.dtype(), op, root, comm());
  if (rank() == root) values.write_back();
}

Tensor MpiCommunicator::reduce_scatter(const Tensor& tensor, ReduceOp op) {
  check_reducible("reduce_scatter", tensor);
  const auto waiting = wait_in(Waiting::reduce_scatter, tensor.bytes());
  TASUKI_CHECK(tensor.shape().rank() > 0, "reduce_scatter deals out axis 0, and a scalar has none");
  require_agreement("reduce_scatter", text_of(tensor, op));
  const HostValues values(tensor);

  const std::int64_t items = tensor.shape()[0], share = items / size(), extra = items % size();
  Tensor own;
  for (int owner = 0; owner < size(); ++owner) {
    const std::int64_t begin = owner * share + std::min<std::int64_t>(owner, extra);
    const Tensor part = values.tensor().slice(begin, begin + share + (owner < extra ? 1 : 0));
    // The caller's values stay as they are.
    const bool is_mine = owner == rank();
    if (is_mine) own = part.clone();
    tasuki::reduce((is_mine ? own : part).raw(), part.count(), part.dtype(), op, owner, comm());
  }
  return own.to(options_.device);
}

void MpiCommunicator::require_agreement(const char* operation, const std::string& text,
                                        std::span<std::int64_t> maxima) {
  // All hashes are equal when the largest and the smallest are: one small reduction.
  const auto hash = static_cast<std::int64_t>(hash_text(text) >> 1);
  std::vector<std::int64_t> numbers{hash, -hash};
  numbers.insert(numbers.end(), maxima.begin(), maxima.end());
  tasuki::allreduce(numbers.data(), std::ssize(numbers), DType::int64, ReduceOp::max, comm());
  std::copy(numbers.begin() + 2, numbers.end(), maxima.begin());
  if (numbers[0] == -numbers[1]) return;
  const auto texts = allgather_bytes(std::as_bytes(std::span(text)));
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const Bytes& bytes) { return bytes != texts.front(); });
  const auto readable = [](const Bytes& bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  throw Error(ErrorKind::disagreement,
              fmt::format("{}: rank 0 gave {} but rank {} gave {}; all must agree", operation,
                          readable(texts.front()), other - texts.begin(), readable(*other)),
              topology_.shared_error_scope);
}

void MpiCommunicator::check_free() const {
  TASUKI_CHECK(*under_way_ == 0 || is_starting_ || (background_ && background_->is_this_thread()),
               "the communicator is busy with an exchange of gradients; wait() for it first");
}

MPI_Comm MpiCommunicator::comm() const {
  check_free();
  return comm_.get();
}

void MpiCommunicator::check_root(const char* operation, int root) const {
  if (root < 0 || root >= size())
    throw Error(ErrorKind::usage,
                fmt::format("{}: root {} of {} ranks; expected 0 to {}", operation, root, size(),
                            size() - 1),
                topology_.shared_error_scope);
}

void MpiCommunicator::check_peer(const char* operation, int peer) const {
  if (peer == rank())
    fail(ErrorKind::usage, "{}: rank {} named itself as the other side", operation, peer);
  if (peer < 0 || peer >= size())
    fail(ErrorKind::usage, "{}: rank {} of {} ranks; expected 0 to {}", operation, peer, size(),
         size() - 1);
}

}  // namespace tasuki

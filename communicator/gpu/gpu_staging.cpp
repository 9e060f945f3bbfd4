#include "communicator/gpu/gpu_staging.hpp"

#include <algorithm>

#include "communicator/mpi/mpi.hpp"

namespace tasuki {
namespace {

// Pieces that are copied together; neighbours are merged.
class Batch {
 public:
  // Full when it has this many bytes.
  Batch(std::size_t element_bytes, std::int64_t full_bytes)
      : element_bytes_(element_bytes), full_bytes_(full_bytes) {}

  void add(Range piece) {
    pieces_.push_back(piece);
    count_ += piece.size();
  }
  bool is_full() const { return count_ * static_cast<std::int64_t>(element_bytes_) >= full_bytes_; }

  // Copies the pieces between two arrays and clears the list.
  void copy(GpuChannel& channel, std::byte* destination, const std::byte* source) {
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (auto first = pieces_.begin(); first != pieces_.end();) {
      auto last = first;
      while (std::next(last) != pieces_.end() && std::next(last)->begin == last->end) ++last;
      const std::size_t offset = static_cast<std::size_t>(first->begin) * element_bytes_;
      const std::size_t end = static_cast<std::size_t>(last->end) * element_bytes_;
      if (end > offset) channel.copy(destination + offset, source + offset, end - offset);
      first = std::next(last);
    }
    pieces_.clear();
    count_ = 0;
  }

 private:
  std::size_t element_bytes_;
  std::int64_t full_bytes_;
  std::vector<Range> pieces_;
  std::int64_t count_ = 0;
};

// Everything is queued on the channel before the first piece is needed: copies to the host, each
// piece with the event after which it has arrived.
std::vector<GpuEventPtr> download(GpuChannel& channel, const std::vector<Range>& pieces,
                                  Batch batch, std::byte* host, const std::byte* device) {
  std::vector<GpuEventPtr> arrivals;
  std::size_t gathered = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    batch.add(pieces[i]);
    ++gathered;
    if (!batch.is_full() && i + 1 < pieces.size()) continue;
    batch.copy(channel, host, device);
    arrivals.insert(arrivals.end(), gathered, channel.event());
    gathered = 0;
  }
  return arrivals;
}

}  // namespace

Tensor GpuStaging::pinned_like(const Tensor& values) {
  if (!pinned_ || pinned_->bytes() < values.bytes()) {
    // Copies from the old block may still be running.
    if (pinned_) channel_.wait(*channel_.event());
    pinned_ = channel_.allocate_pinned(values.bytes());
  }
  return {pinned_, 0, values.shape(), values.dtype()};
}

void GpuStaging::on_host(const Tensor& values, const std::function<void(const Tensor&)>& work) {
  if (values.count() == 0) return work(values.to(Device::cpu()));
  const Tensor host = pinned_like(values);
  channel_.copy(host.raw(), values.raw(), values.bytes());
  channel_.wait(*channel_.event());
  work(host);
  channel_.copy(values.raw(), host.raw(), values.bytes());
}

void GpuStaging::allreduce_between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm,
                                         const Wire& wire) {
  if (values.count() == 0) return;
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &ranks);
  const Tensor pinned = pinned_like(values);
  auto* const host = static_cast<std::byte*>(pinned.raw());
  auto* const device = static_cast<std::byte*>(values.raw());

  PlannedAllreduce& allreduce =
      allreduces_.try_emplace({rank, ranks}, rank, ranks, settings_).first->second;
  const MessagePlan& plan = allreduce.plan_for(values.count(), wire.type_of(values.dtype()));
  Batch finished(size_of(values.dtype()), settings_.sizes.gpu_copy);
  const auto arrivals = download(channel_, plan.need, finished, host, device);
  std::size_t needed = 0;
  const GpuEvent* seen = nullptr;
  const auto prepare = [&](Range /*piece*/) {
    const GpuEvent* const arrival = arrivals[needed++].get();
    if (arrival != seen) channel_.wait(*arrival);
    seen = arrival;
    return true;
  };
  const auto give_back = [&](Range piece) {
    finished.add(piece);
    if (finished.is_full()) finished.copy(channel_, device, host);
  };
  allreduce.run(host, values.count(), values.dtype(), op, comm, {prepare, give_back}, wire);
  finished.copy(channel_, device, host);
}

}  // namespace tasuki

#include "tasuki/communicator/gpu/gpu_staging.hpp"

#include <algorithm>

#include "tasuki/communicator/mpi/between_nodes.hpp"

namespace tasuki {
namespace {

// Chunks that are copied together; neighbours are merged.
class Batch {
 public:
  // Full when it has this many bytes.
  Batch(std::size_t element_bytes, std::int64_t full_bytes)
      : element_bytes_(element_bytes), full_bytes_(full_bytes) {}

  void add(Range chunk) {
    chunks_.push_back(chunk);
    count_ += chunk.size();
  }
  bool is_full() const { return count_ * static_cast<std::int64_t>(element_bytes_) >= full_bytes_; }

  // Copies the chunks between two arrays and clears the list.
  void copy(GpuChannel& channel, std::byte* destination, const std::byte* source) {
    std::sort(chunks_.begin(), chunks_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (auto first = chunks_.begin(); first != chunks_.end();) {
      auto last = first;
      while (std::next(last) != chunks_.end() && std::next(last)->begin == last->end) ++last;
      const std::size_t offset = static_cast<std::size_t>(first->begin) * element_bytes_;
      const std::size_t end = static_cast<std::size_t>(last->end) * element_bytes_;
      if (end > offset) channel.copy(destination + offset, source + offset, end - offset);
      first = std::next(last);
    }
    chunks_.clear();
    count_ = 0;
  }

 private:
  std::size_t element_bytes_;
  std::int64_t full_bytes_;
  std::vector<Range> chunks_;
  std::int64_t count_ = 0;
};

// Everything is queued on the channel before the first chunk is needed: copies to the host, each
// chunk with the event after which it has arrived.
std::vector<GpuEventPtr> download(GpuChannel& channel, const std::vector<Range>& chunks,
                                  Batch batch, std::byte* host, const std::byte* device) {
  std::vector<GpuEventPtr> arrivals;
  std::size_t gathered = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    batch.add(chunks[i]);
    ++gathered;
    if (!batch.is_full() && i + 1 < chunks.size()) continue;
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

void GpuStaging::allreduce_between_nodes(const Tensor& values, ReduceOp op, MPI_Comm comm) {
  if (values.count() == 0) return;
  int rank = 0, ranks = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &ranks);
  const Tensor pinned = pinned_like(values);
  auto* const host = static_cast<std::byte*>(pinned.raw());
  auto* const device = static_cast<std::byte*>(values.raw());

  const auto order = piece_order(values.count(), values.dtype(), rank, ranks, sizes_);
  Batch finished(size_of(values.dtype()), sizes_.gpu_copy);
  const auto arrivals = download(channel_, order.need, finished, host, device);
  std::size_t needed = 0;
  const GpuEvent* seen = nullptr;
  const auto prepare = [&](Range /*chunk*/) {
    const GpuEvent* const arrival = arrivals[needed++].get();
    if (arrival != seen) channel_.wait(*arrival);
    seen = arrival;
  };
  const auto give_back = [&](Range chunk) {
    finished.add(chunk);
    if (finished.is_full()) finished.copy(channel_, device, host);
  };
  tasuki::allreduce_between_nodes(host, values.count(), values.dtype(), op, comm, sizes_, prepare,
                                  give_back);
  finished.copy(channel_, device, host);
}

}  // namespace tasuki

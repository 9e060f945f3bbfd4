#include "communicator/node/node_group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "communicator/mpi/transfer.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {
namespace {

// Parts of values in other memory pass through shared memory up to this length; MPI sends longer
// ones.
constexpr std::size_t most_staged_bytes = std::size_t{1} << 20;

}  // namespace

struct NodeGroup::Offer {
  std::int64_t count;
  DType dtype;
  ReduceOp op;
  std::uint32_t segment;  // 0: memory of this rank alone
  std::size_t offset;

  bool agrees_with(const Offer& other) const {
    return count == other.count && dtype == other.dtype && op == other.op;
  }
  std::string text() const {
    return fmt::format("{} of {} {} values", name_of(op), count, name_of(dtype));
  }
};

struct NodeGroup::Slot {
  alignas(64) Offer offer;
  std::uint64_t found;  // the latest search in which this rank has found something
  alignas(64) SharedCounter counter;
};

struct NodeGroup::Control {
  SharedBarrier barrier;
  // The slots of all ranks follow this struct.
};

std::vector<void*> SharedValues::at(std::int64_t begin) const {
  std::vector<void*> addresses;
  for (std::byte* values : of_rank)
    addresses.push_back(values + begin * static_cast<std::int64_t>(size_of(dtype)));
  return addresses;
}

SharedValues SharedValues::with_shards_of(const GradientView& gradients,
                                          std::span<const int> ranks) const {
  SharedValues shared = *this;
  if (gradients.shards == nullptr) return shared;
  TASUKI_CHECK(count == gradients.arena.count(),
               "sums of shards are not in memory that the node shares");
  shared.shards = std::make_shared<const ShardsOfNode>(*gradients.shards, ranks);
  return shared;
}

Range SharedValues::here(Range of_all) const {
  return {std::clamp<std::int64_t>(of_all.begin - first, 0, count),
          std::clamp<std::int64_t>(of_all.end - first, 0, count)};
}

SharedValues::Operands SharedValues::operands(std::int64_t begin,
                                              std::span<const int> destinations) const {
  const auto addresses = at(begin);
  std::vector<void*> targets;
  for (const int rank : destinations) targets.push_back(addresses[static_cast<std::size_t>(rank)]);
  return {{addresses.begin(), addresses.end()}, destinations.empty() ? addresses : targets};
}

ShardsOfNode::ShardsOfNode(const ShardSources& all, std::span<const int> ranks)
    : order(all.tree, nodes_of(all.in_order(ranks))), stride(all.stride) {
  for (const ShardSources::Source& source : all.in_order(ranks)) {
    const auto rank = std::ranges::find(ranks, static_cast<int>(source.group)) - ranks.begin();
    sources.push_back({static_cast<std::size_t>(rank), source.array});
  }
}

bool SharedValues::sum_shards(std::int64_t begin, std::int64_t end,
                              std::span<const int> destinations, bool searches) const {
  const auto array_of = [&](std::size_t rank, std::size_t array) {
    return reinterpret_cast<float*>(of_rank[rank]) + begin +
           static_cast<std::int64_t>(array) * shards->stride;
  };
  std::vector<const float*> arrays;
  for (const auto& [rank, array] : shards->sources) arrays.push_back(array_of(rank, array));
  std::vector<std::vector<float*>> results(shards->order.roots.size());
  for (std::size_t array = 0; array < results.size(); ++array)
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
      if (destinations.empty() ||
          std::ranges::find(destinations, static_cast<int>(rank)) != destinations.end())
        results[array].push_back(array_of(rank, array));
  return sum_in_tree(arrays, shards->order.merges, results, end - begin, searches);
}

void SharedValues::reduce(std::int64_t begin, std::int64_t end,
                          std::span<const int> destinations) const {
  if (shards) return void(sum_shards(begin, end, destinations, false));
  const Operands arrays = operands(begin, destinations);
  reduce_arrays(dtype, op, arrays.sources, arrays.destinations, end - begin);
}

bool SharedValues::sum_and_search(std::int64_t begin, std::int64_t end,
                                  std::span<const int> destinations) const {
  if (shards) return sum_shards(begin, end, destinations, true);
  const Operands arrays = operands(begin, destinations);
  return sum_arrays_and_search(arrays.sources, arrays.destinations, end - begin);
}

void SharedValues::reduce_into(void* result, std::int64_t begin, std::int64_t end) const {
  const std::array<void*, 1> targets{result};
  reduce_arrays(dtype, op, operands(begin, {}).sources, targets, end - begin);
}

void SharedValues::copy(int source, int destination, std::int64_t begin, std::int64_t end) const {
  const auto addresses = at(begin);
  if (end > begin)
    std::memcpy(addresses[static_cast<std::size_t>(destination)],
                addresses[static_cast<std::size_t>(source)],
                static_cast<std::size_t>(end - begin) * size_of(dtype));
}

void SharedValues::copy(int source, int destination, Range piece,
                        std::span<const Range> needed) const {
  for (const Range& range : needed)
    copy(source, destination, std::max(piece.begin, range.begin), std::min(piece.end, range.end));
}

Range share_of(std::int64_t count, std::size_t element_bytes, int part, int parts) {
  const auto line = static_cast<std::int64_t>(64 / element_bytes);
  const std::int64_t lines = (count + line - 1) / line;
  return {std::min(count, lines * part / parts * line),
          std::min(count, lines * (part + 1) / parts * line)};
}

NodeGroup::NodeGroup(MpiComm node)
    : node_(std::move(node)), rank_(node_.rank()), size_(node_.size()) {
  const std::size_t bytes = sizeof(Control) + static_cast<std::size_t>(size_) * sizeof(Slot);
  control_ = share_memory(rank_ == 0 ? bytes : 0, node_.get());
}

NodeGroup::Slot& NodeGroup::slot(int rank) const {
  std::byte* slots = control_.front().data() + sizeof(Control);
  return reinterpret_cast<Slot*>(slots)[rank];
}

SharedCounter& NodeGroup::counter(int rank) {
  return slot(rank).counter;
}

SharedBarrier& NodeGroup::shared_barrier() const {
  return reinterpret_cast<Control*>(control_.front().data())->barrier;
}

void NodeGroup::barrier() const {
  shared_barrier().wait(static_cast<std::uint32_t>(size_));
}

std::uint32_t NodeGroup::segment_of(const Tensor& values) const {
  const auto place = arenas_.find(values.raw());
  return place.segment ? place.segment->number : 0;
}

std::optional<SharedValues> NodeGroup::exchange_offers(const Tensor& values, ReduceOp op) {
  put_offer(values, op);
  barrier();
  return offered(values, op);
}

std::uint32_t NodeGroup::arrive() const {
  return shared_barrier().arrive(static_cast<std::uint32_t>(size_));
}

bool NodeGroup::has_passed(std::uint32_t generation) const {
  return shared_barrier().has_passed(generation);
}

void NodeGroup::put_offer(const Tensor& values, ReduceOp op) const {
  const auto place = arenas_.find(values.raw());
  slot(rank_).offer = {values.count(), values.dtype(), op,
                       place.segment ? place.segment->number : 0, place.offset};
}

std::optional<SharedValues> NodeGroup::offered(const Tensor& values, ReduceOp op) const {
  const auto place = arenas_.find(values.raw());
  require_equal_offers();
  if (!offers_share_a_segment()) return std::nullopt;
  SharedValues shared{values.dtype(), op, values.count(), {}, 0};
  for (int rank = 0; rank < size_; ++rank)
    shared.of_rank.push_back(place.segment->blocks[static_cast<std::size_t>(rank)].data() +
                             slot(rank).offer.offset);
  return shared;
}

void NodeGroup::exchange(const Tensor& values, ReduceOp op, std::size_t piece_bytes, bool in_place,
                         const Work& work) {
  if (size_ == 1) return work_alone(values, op, in_place ? values.bytes() : piece_bytes, work);
  const auto shared = exchange_offers(values, op);
  if (values.count() == 0) return barrier();
  if (!in_place || !shared) return exchange_in_pieces(values, op, piece_bytes, work);
  work(*shared);
  barrier();
}

// Between slices it polls the barriers for which exchange() waits.
class NodeGroup::SlicedExchange final : public SlicedWork {
 public:
  SlicedExchange(NodeGroup& node, Tensor values, ReduceOp op, StartWork start)
      : node_(node), values_(std::move(values)), op_(op), start_(std::move(start)) {
    if (is_alone()) return;
    node_.put_offer(values_, op_);
    awaited_ = node_.arrive();
  }

  bool is_done() const override { return stage_ == Stage::done; }
  bool advance() override {
    switch (stage_) {
      case Stage::waiting_for_offers:
        if (!is_alone() && !node_.has_passed(awaited_)) return false;
        work_ = start_(shared_values());
        stage_ = Stage::working;
        return true;
      case Stage::working:
        if (!work_->is_done()) return work_->advance();
        work_.reset();
        if (!is_alone()) awaited_ = node_.arrive();
        stage_ = is_alone() ? Stage::done : Stage::waiting_for_others;
        return true;
      case Stage::waiting_for_others:
        if (!node_.has_passed(awaited_)) return false;
        stage_ = Stage::done;
        return true;
      case Stage::done:
        break;
    }
    return false;
  }

 private:
  enum class Stage : std::uint8_t { waiting_for_offers, working, waiting_for_others, done };

  bool is_alone() const { return node_.size() == 1; }
  SharedValues shared_values() const {
    if (is_alone())
      return {values_.dtype(), op_, values_.count(), {static_cast<std::byte*>(values_.raw())}};
    auto shared = node_.offered(values_, op_);
    TASUKI_CHECK(shared.has_value(), "the values of a node's ranks are not in one allocation");
    return *std::move(shared);
  }

  NodeGroup& node_;
  Tensor values_;
  ReduceOp op_;
  StartWork start_;
  Stage stage_ = Stage::waiting_for_offers;
  std::uint32_t awaited_ = 0;  // of has_passed()
  std::unique_ptr<SlicedWork> work_;
};

std::unique_ptr<SlicedWork> NodeGroup::start_exchange(const Tensor& values, ReduceOp op,
                                                      StartWork start) {
  return std::make_unique<SlicedExchange>(*this, values, op, std::move(start));
}

void NodeGroup::work_alone(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                           const Work& work) {
  const std::size_t element = size_of(values.dtype());
  const auto piece = static_cast<std::int64_t>(piece_bytes / element);
  for (std::int64_t begin = 0; begin < values.count(); begin += piece) {
    auto* part = static_cast<std::byte*>(values.raw()) + static_cast<std::size_t>(begin) * element;
    work({values.dtype(), op, std::min(piece, values.count() - begin), {part}, begin});
  }
}

void NodeGroup::require_equal_offers() const {
  const Offer first = slot(0).offer;
  for (int rank = 1; rank < size_; ++rank) {
    const Offer other = slot(rank).offer;
    if (other.agrees_with(first)) continue;
    // All ranks have read the offers before any of them makes the next one.
    barrier();
    throw Error(ErrorKind::disagreement,
                fmt::format("allreduce: the node's rank 0 gave a {} but its rank {} gave a {}; all "
                            "must agree",
                            first.text(), rank, other.text()),
                scope_of_shared_error(node_.get()));
  }
}

bool NodeGroup::offers_share_a_segment() const {
  const std::uint32_t segment = slot(0).offer.segment;
  for (int rank = 1; rank < size_; ++rank)
    if (slot(rank).offer.segment != segment) return false;
  return segment != 0;
}

SharedValues NodeGroup::staging(std::size_t bytes, DType dtype, ReduceOp op) {
  // All ranks have come to the same conclusion before, so this allocation is collective.
  if (!staging_ || staging_->bytes() < bytes) staging_ = allocate(bytes);
  SharedValues shared{dtype, op, 0, {}, 0};
  for (const auto& block : arenas_.find(staging_->data()).segment->blocks)
    shared.of_rank.push_back(block.data());
  return shared;
}

void NodeGroup::exchange_in_pieces(const Tensor& values, ReduceOp op, std::size_t piece_bytes,
                                   const Work& work) {
  const std::size_t element = size_of(values.dtype());
  const auto piece = static_cast<std::int64_t>(piece_bytes / element);
  auto* own = static_cast<std::byte*>(values.raw());

  SharedValues shared = staging(piece_bytes, values.dtype(), op);
  for (std::int64_t begin = 0; begin < values.count(); begin += piece) {
    shared.first = begin;
    shared.count = std::min(piece, values.count() - begin);
    const std::size_t bytes = static_cast<std::size_t>(shared.count) * element;
    std::byte* part = own + static_cast<std::size_t>(begin) * element;
    std::memcpy(staging_->data(), part, bytes);
    barrier();
    work(shared);
    barrier();
    // Only this rank uses its staging memory from here to the next barrier.
    std::memcpy(part, staging_->data(), bytes);
    report_progress();
  }
}

void NodeGroup::combine(const GradientView& values, ReduceOp op, std::size_t piece_bytes,
                        bool in_place) {
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  exchange(values.arena, op, piece_bytes, in_place, [&](const SharedValues& all) {
    const SharedValues shared = all.with_shards_of(values, ranks);
    if (!values.is_scattered())
      return reduce_share(shared, share_of(shared.count, size_of(shared.dtype), rank_, size_), {});
    // Each rank combines the part that it alone needs. The last rank combines what all ranks need.
    const std::array<int, 1> into_own{rank_};
    reduce_share(shared, shared.here(values.needed_by(rank_)), into_own);
    if (rank_ + 1 == size_)
      reduce_share(shared, shared.here({values.divided(), values.arena.count()}), {});
  });
}

void NodeGroup::reduce_share(const SharedValues& shared, Range part,
                             std::span<const int> destinations) {
  if (!searches_ || shared.op != ReduceOp::sum || shared.dtype != DType::float32)
    shared.reduce(part.begin, part.end, destinations);
  else if (shared.sum_and_search(part.begin, part.end, destinations))
    slot(rank_).found = search_;
}

void NodeGroup::begin_search() {
  searches_ = true;
  ++search_;
}

bool NodeGroup::end_search() {
  searches_ = false;
  for (int rank = 0; rank < size_; ++rank)
    if (slot(rank).found == search_) return true;
  return false;
}

void NodeGroup::reduce_parts(const Tensor& values, std::span<const Range> parts, ReduceOp op,
                             std::size_t piece_bytes, void* own) {
  const Range part = parts[static_cast<std::size_t>(rank_)];
  if (const auto shared = exchange_offers(values, op)) {
    shared->reduce_into(own, part.begin, part.end);
    return barrier();
  }
  if (values.count() == 0) return barrier();
  // In each turn the staging memory holds the next piece of every rank's part, each in its place.
  const std::size_t element = size_of(values.dtype());
  const auto piece = static_cast<std::int64_t>(
      std::max<std::size_t>(1, piece_bytes / element / static_cast<std::size_t>(size_)));
  const std::int64_t longest = std::ranges::max(parts, {}, &Range::size).size();
  const std::size_t staged_bytes = static_cast<std::size_t>(piece * size_) * element;
  SharedValues shared = staging(staged_bytes, values.dtype(), op);
  shared.count = piece * size_;
  for (std::int64_t offset = 0; offset < longest; offset += piece) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const std::int64_t begin = parts[rank].begin + offset;
      const std::int64_t count = std::min(piece, parts[rank].end - begin);
      if (count > 0)
        std::memcpy(
            static_cast<std::byte*>(staging_->data()) +
                rank * static_cast<std::size_t>(piece) * element,
            static_cast<const std::byte*>(values.raw()) + static_cast<std::size_t>(begin) * element,
            static_cast<std::size_t>(count) * element);
    }
    barrier();
    const std::int64_t count = std::min(piece, part.size() - offset);
    if (count > 0)
      shared.reduce_into(static_cast<std::byte*>(own) + static_cast<std::size_t>(offset) * element,
                         rank_ * piece, rank_ * piece + count);
    barrier();
    report_progress();
  }
}

void NodeGroup::share_parts(const Tensor& values, std::span<const Part> parts,
                            std::int64_t call_bytes) {
  if (size_ == 1) return;
  const auto bytes_of = [&](void* first, Range elements) {
    const auto size = static_cast<std::int64_t>(size_of(values.dtype()));
    return std::span(static_cast<std::byte*>(first) + elements.begin * size,
                     static_cast<std::size_t>(elements.size() * size));
  };
  if (const auto shared = exchange_offers(values, ReduceOp::sum)) {
    for (const auto& [rank, elements] : parts)
      if (rank != rank_) shared->copy(rank, rank_, elements.begin, elements.end);
    return barrier();
  }
  if (values.bytes() > most_staged_bytes) {
    for (const auto& [rank, elements] : parts)
      bcast(bytes_of(values.raw(), elements), rank, node_.get(), call_bytes);
    return;
  }
  const SharedValues staged = staging(most_staged_bytes, values.dtype(), ReduceOp::sum);
  for (const auto& [rank, elements] : parts)
    if (rank == rank_)
      std::ranges::copy(bytes_of(values.raw(), elements),
                        bytes_of(staging_->data(), elements).begin());
  barrier();
  for (const auto& [rank, elements] : parts)
    if (rank != rank_)
      std::ranges::copy(bytes_of(staged.of_rank[static_cast<std::size_t>(rank)], elements),
                        bytes_of(values.raw(), elements).begin());
  barrier();
}

}  // namespace tasuki

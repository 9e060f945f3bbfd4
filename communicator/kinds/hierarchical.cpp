// hierarchical: reduces inside the node into the leader's memory, allreduces between the leaders of
// the nodes, and copies to the other ranks inside the node, all three at once on different chunks.
//
// The leader (the node's first rank) drives the transfer. The other ranks of the node combine the
// chunks for it, in the order in which the transfer needs them, and copy finished chunks into their
// own memory as they come. On GPUs, NCCL does the work inside the node.
#include <array>
#include <vector>

#include "tasuki/communicator/gpu/gpu_exchange.hpp"
#include "tasuki/communicator/mpi/between_nodes.hpp"
#include "tasuki/communicator/node/node_communicator.hpp"
#include "tasuki/communicator/registry.hpp"

namespace tasuki {
namespace {

// Private buffers: long enough that the transfer of a piece consists of many chunks.
constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr int leader = 0;

class HierarchicalCommunicator : public NodeCommunicator {
 public:
  explicit HierarchicalCommunicator(const CommunicatorSetup& setup)
      : NodeCommunicator(setup),
        leaders_(
            MpiComm::split(comm().get(), intra_rank() == leader ? 0 : MPI_UNDEFINED, inter_rank())),
        counts_(static_cast<std::size_t>(intra_size()), 0) {}

 protected:
  bool checks_agreement() const override { return true; }
  std::string describe_kind() const override {
    if (!options().device.is_cpu())
      return fmt::format(
          "hierarchical: NCCL inside {} node(s), MPI between their first ranks by {}, {} ranks",
          inter_size(), way_between_nodes(), size());
    return fmt::format(
        "hierarchical: shared memory inside {} node(s), chunked ring between their first ranks, {} "
        "ranks",
        inter_size(), size());
  }

  void combine(const Tensor& values, ReduceOp op) override {
    const bool in_place = inter_size() == 1 || all_nodes_in_place(values, op);
    node().exchange(values, op, piece_bytes, in_place, [this](const SharedValues& shared) {
      if (inter_size() == 1) return shared.reduce_share(rank(), size());
      const auto order =
          piece_order(shared.count, shared.dtype, inter_rank(), inter_size(), options().sizes);
      if (intra_rank() == leader) {
        lead(shared);
      } else {
        combine_for_leader(shared, order.need);
        copy_from_leader(shared, order.completion);
      }
      // Every rank knows the final values of the counters, so they are never reset.
      for (std::size_t chunk = 0; chunk < order.need.size() && intra_size() > 1; ++chunk)
        ++counts_[static_cast<std::size_t>(worker_of(chunk))];
      counts_[leader] += static_cast<std::uint32_t>(order.completion.size());
    });
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    through_leader_on_gpu(values, op, leaders_);
  }

 private:
  int worker_of(std::size_t chunk) const {
    return 1 + static_cast<int>(chunk % static_cast<std::size_t>(intra_size() - 1));
  }

  void lead(const SharedValues& shared) {
    std::size_t needed = 0;
    auto ready = counts_;
    std::uint32_t complete = counts_[leader];
    const auto prepare = [&](Range /*chunk*/) {
      if (intra_size() == 1) return;
      const int worker = worker_of(needed++);
      node().counter(worker).wait_for(++ready[static_cast<std::size_t>(worker)]);
    };
    const auto finished = [&](Range /*chunk*/) { node().counter(leader).set(++complete); };
    allreduce_between_nodes(shared.of_rank[leader], shared.count, shared.dtype, shared.op,
                            leaders_.get(), options().sizes, prepare, finished);
  }

  void combine_for_leader(const SharedValues& shared, const std::vector<Range>& chunks) {
    std::uint32_t done = counts_[static_cast<std::size_t>(intra_rank())];
    constexpr std::array<int, 1> into{leader};
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
      if (worker_of(chunk) != intra_rank()) continue;
      shared.reduce(chunks[chunk].begin, chunks[chunk].end, into);
      node().counter(intra_rank()).set(++done);
    }
  }

  void copy_from_leader(const SharedValues& shared, const std::vector<Range>& chunks) {
    std::uint32_t complete = counts_[leader];
    for (const Range& chunk : chunks) {
      node().counter(leader).wait_for(++complete);
      shared.copy(leader, intra_rank(), chunk.begin, chunk.end);
    }
  }

  MpiComm leaders_;  // on leaders alone
  // The values of the node's counters after earlier exchanges: the leader's counts finished chunks,
  // each other rank's the chunks that it has combined.
  std::vector<std::uint32_t> counts_;
};

const Registration<HierarchicalCommunicator> registration{
    "hierarchical", "shared memory or NCCL inside nodes, chunked ring between first ranks",
    "any placement"};

}  // namespace
}  // namespace tasuki

// hierarchical: reduces inside the node into the leader's memory, allreduces between the leaders of
// the nodes, and copies to the other ranks inside the node, all three at once on different pieces.
//
// The leader (the node's first rank) drives the transfer. The other ranks of the node combine the
// pieces for it, in the order in which the transfer needs them, and copy finished pieces into their
// own memory as they come. On GPUs, NCCL does the work inside the node.
#include <array>
#include <vector>

#include "tasuki/communicator/algorithms/planned_allreduce.hpp"
#include "tasuki/communicator/gpu/gpu_exchange.hpp"
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
        between_nodes_(inter_rank(), inter_size(),
                       {options().algorithm, options().sizes, options().link}),
        counts_(static_cast<std::size_t>(intra_size()), 0) {}

 protected:
  bool checks_agreement() const override { return true; }
  std::string describe_kind() const override {
    if (!options().device.is_cpu())
      return fmt::format(
          "hierarchical: NCCL inside {} node(s), MPI between their first ranks by {}, {} ranks",
          inter_size(), way_between_nodes(), size());
    return fmt::format(
        "hierarchical: shared memory inside {} node(s), allreduce between their first ranks ({}), "
        "{} "
        "ranks",
        inter_size(), between_nodes_.describe(), size());
  }

  void combine(const Tensor& values, ReduceOp op) override {
    work_on(values, op, inter_size() == 1 || all_nodes_in_place(values, op));
  }
  void sum(const GradientView& gradients) override {
    work_on(gradients.arena, ReduceOp::sum, inter_size() == 1 || all_nodes_in_place(gradients));
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    through_leader_on_gpu(values, op, leaders_);
  }

 private:
  void work_on(const Tensor& values, ReduceOp op, bool in_place) {
    node().exchange(values, op, piece_bytes, in_place, [this](const SharedValues& shared) {
      if (inter_size() == 1) return shared.reduce_share(rank(), size());
      const MessagePlan& plan = between_nodes_.plan_for(shared.count, shared.dtype);
      if (intra_rank() == leader) {
        lead(shared);
      } else {
        combine_for_leader(shared, plan.need);
        copy_from_leader(shared, plan.completion);
      }
      // Every rank knows the final values of the counters, so they are never reset.
      for (std::size_t piece = 0; piece < plan.need.size() && intra_size() > 1; ++piece)
        ++counts_[static_cast<std::size_t>(worker_of(piece))];
      counts_[leader] += static_cast<std::uint32_t>(plan.completion.size());
    });
  }

  int worker_of(std::size_t piece) const {
    return 1 + static_cast<int>(piece % static_cast<std::size_t>(intra_size() - 1));
  }

  void lead(const SharedValues& shared) {
    std::size_t needed = 0;
    auto ready = counts_;
    std::uint32_t complete = counts_[leader];
    const auto prepare = [&](Range /*piece*/) {
      if (intra_size() == 1) return true;
      const int worker = worker_of(needed);
      std::uint32_t& count = ready[static_cast<std::size_t>(worker)];
      if (!node().counter(worker).has_reached(count + 1)) return false;
      ++count;
      ++needed;
      return true;
    };
    const auto finished = [&](Range /*piece*/) { node().counter(leader).set(++complete); };
    between_nodes_.run(shared.of_rank[leader], shared.count, shared.dtype, shared.op,
                       leaders_.get(), {prepare, finished});
  }

  void combine_for_leader(const SharedValues& shared, const std::vector<Range>& pieces) {
    std::uint32_t done = counts_[static_cast<std::size_t>(intra_rank())];
    constexpr std::array<int, 1> into{leader};
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      if (worker_of(piece) != intra_rank()) continue;
      shared.reduce(pieces[piece].begin, pieces[piece].end, into);
      node().counter(intra_rank()).set(++done);
    }
  }

  void copy_from_leader(const SharedValues& shared, const std::vector<Range>& pieces) {
    std::uint32_t complete = counts_[leader];
    for (const Range& piece : pieces) {
      node().counter(leader).wait_for(++complete);
      shared.copy(leader, intra_rank(), piece.begin, piece.end);
    }
  }

  MpiComm leaders_;                 // on leaders alone
  PlannedAllreduce between_nodes_;  // the leader's, known to all ranks of the node
  // The values of the node's counters after earlier exchanges: the leader's counts finished pieces,
  // each other rank's the pieces that it has combined.
  std::vector<std::uint32_t> counts_;
};

constexpr bool needs_gpu = false, takes_wire_dtype = false, takes_algorithm = true;
const Registration<HierarchicalCommunicator> registration{
    "hierarchical",   "shared memory or NCCL in nodes, allreduce between their first ranks",
    "any placement",  needs_gpu,
    takes_wire_dtype, takes_algorithm};

}  // namespace
}  // namespace tasuki

// two_dimensional: an allreduce is a reduce-scatter inside the node, allreduce of each share
// between the ranks that hold it on the other nodes, allgather inside the node. On CPUs all three
// run at once on different pieces; on GPUs NCCL does the two steps inside the node.
//
// Where each rank needs a part of the sums, a rank combines, inside its node, the parts of all
// ranks that have its number in their nodes, and these ranks reduce-scatter them.
#include <optional>
#include <utility>

#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/node/node_communicator.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

constexpr std::size_t piece_bytes = std::size_t{4} << 20;

void require_equal_nodes(const Topology& topology) {
  if (topology.ranks_per_node() != 0) return;
  const auto expected = topology.ranks_of_node(0).size();
  for (int node = 1; node < topology.inter_size; ++node) {
    const auto ranks = topology.ranks_of_node(node);
    if (ranks.size() == expected) continue;
    fail_everywhere(
        ErrorKind::config,
        "the communicator two_dimensional needs the same number of ranks on every node, but {} has "
        "{} and {} has {}; change the hostfile or use hierarchical",
        topology.host_of[0], expected, topology.host_of[static_cast<std::size_t>(ranks.front())],
        ranks.size());
  }
}

class TwoDimensionalCommunicator : public NodeCommunicator {
 public:
  explicit TwoDimensionalCommunicator(const CommunicatorSetup& setup)
      : NodeCommunicator(setup),
        across_(split_ranks(intra_rank(), inter_rank())),
        between_nodes_(inter_rank(), inter_size(),
                       {options().algorithm, options().sizes, share_of_link()}) {
    require_equal_nodes(topology());
  }

 protected:
  bool checks_agreement() const override { return true; }
  std::string describe_kind() const override {
    if (!options().device.is_cpu())
      return fmt::format(
          "two_dimensional: {} node(s) x {} ranks, NCCL inside nodes, MPI between them by {}, each "
          "rank with its part{}",
          inter_size(), intra_size(), way_between_nodes(options().wire_dtype), wire_text());
    return fmt::format(
        "two_dimensional: {} node(s) x {} ranks, shared memory inside nodes, allreduce of each "
        "share between them ({}){}",
        inter_size(), intra_size(), between_nodes_.describe(), wire_text());
  }

  void combine(const Tensor& values, ReduceOp op) override { combine_view({.arena = values}, op); }
  void combine_agreed(const Tensor& values, ReduceOp op) override {
    combine_view({.arena = values, .is_agreed = true}, op);
  }
  void sum(const GradientView& gradients) override {
    work_on(gradients, ReduceOp::sum, inter_size() == 1 || all_nodes_in_place(gradients),
            wire_of(gradients));
  }

  bool sums_in_slices() const override {
    return inter_size() > 1 && between_nodes_.runs_in_slices();
  }
  std::unique_ptr<SlicedWork> start_sum(const GradientView& gradients) override {
    if (!sums_in_slices() || !all_nodes_in_place(gradients)) return nullptr;
    return node().start_exchange(
        gradients.arena, ReduceOp::sum,
        [this, gradients, wire = wire_of(gradients)](const SharedValues& all) {
          const SharedValues shared = of_node(all, gradients);
          const Work work = own_work(shared, gradients);
          return between_nodes_.start(
              address_of(shared, work), work.division, shared.dtype, shared.op, across_.get(),
              work_inside(shared, gradients, work), wire.from(shared.first + work.first));
        });
  }

  // Each rank combines, inside its node, the parts of all ranks that have its number in their
  // nodes. Then these ranks combine their results, so that each element leaves a node once.
  void combine_part(const Tensor& values, std::span<const Range> parts, const Tensor& own,
                    ReduceOp op) override {
    if (inter_size() == 1) return NodeCommunicator::combine_part(values, parts, own, op);
    std::vector<std::vector<Range>> of_nodes;
    std::vector<Range> across;  // this rank's part of each node's values, one after the other
    for (int other = 0; other < inter_size(); ++other) {
      std::vector<Range>& of_node = of_nodes.emplace_back();
      for (const int owner : topology().ranks_of_node(other))
        of_node.push_back(parts[static_cast<std::size_t>(owner)]);
      const std::int64_t begin = other == 0 ? 0 : across.back().end;
      const Range mine = of_node[static_cast<std::size_t>(intra_rank())];
      across.push_back({begin, begin + mine.size()});
    }
    const Tensor combined = Tensor::empty({across.back().end}, values.dtype());
    for (std::size_t other = 0; other < across.size(); ++other)
      node().reduce_parts(values, of_nodes[other], op, part_piece_bytes,
                          combined.slice(across[other].begin, across[other].end).raw());
    tasuki::reduce_scatter(combined.raw(), own.raw(), across, values.dtype(), op, across_.get(),
                           options().sizes.mpi_call);
  }

  void combine_on_gpu(const Tensor& values, ReduceOp op) override { work_on_gpu(values, op, {}); }
  void sum_on_gpu(const GradientView& gradients) override {
    work_on_gpu(gradients.arena, ReduceOp::sum, wire_of(gradients));
  }

 private:
  void combine_view(const GradientView& values, ReduceOp op) {
    work_on(values, op, inter_size() == 1 || all_nodes_in_place(values, op), {});
  }

  // All ranks of a node use its link at the same time.
  Link share_of_link() const {
    return {.latency = options().link.latency,
            .bytes_per_second = options().link.bytes_per_second / intra_size()};
  }

  void work_on_gpu(const Tensor& values, ReduceOp op, const Wire& wire) {
    gpu_node().reduce_scatter(values, op);
    const Range own = gpu_part(values.count(), values.dtype(), intra_rank(), intra_size());
    gpu().between_nodes(values.slice(own.begin, own.end), op, across_.get(), wire.from(own.begin));
    gpu_node().allgather(values);
  }

  void work_on(const GradientView& values, ReduceOp op, bool in_place, const Wire& wire) {
    if (inter_size() == 1) return node().combine(values, op, piece_bytes, in_place);
    node().exchange(values.arena, op, piece_bytes, in_place, [&](const SharedValues& all) {
      const SharedValues shared = of_node(all, values);
      const Work work = own_work(shared, values);
      between_nodes_.run(address_of(shared, work), work.division, shared.dtype, shared.op,
                         across_.get(), work_inside(shared, values, work),
                         wire.from(shared.first + work.first));
    });
  }

  // The shared values that this rank combines; `division` counts elements from `first` on.
  struct Work {
    std::int64_t first;
    Division division;
  };
  Work own_work(const SharedValues& shared, const GradientView& gradients) const {
    const auto own_share = [&](std::int64_t count) {
      return share_of(count, size_of(shared.dtype), intra_rank(), intra_size());
    };
    GradientView values = gradients;
    std::optional<ShardSources> shards;  // what nodes bring
    if (const ShardSources* const of_ranks = std::exchange(values.shards, nullptr))
      shards = of_ranks->added_up(static_cast<std::size_t>(inter_size()), [this](int rank) {
        return topology().node_of[static_cast<std::size_t>(rank)];
      });
    if (!gradients.is_scattered()) {
      const Range share = own_share(shared.count);
      Work work{share.begin, Division(share.size())};
      work.division.shards = std::move(shards);
      return work;
    }
    Work work{0, division_of(values, shared.first, shared.count, inter_size(), [this](int rank) {
                const auto at = static_cast<std::size_t>(rank);
                const bool has_own_number = topology().intra_rank_of[at] == intra_rank();
                return has_own_number ? topology().node_of[at] : -1;
              })};
    Range& common = work.division.common;
    const Range share = own_share(common.size());
    common = {common.begin + share.begin, common.begin + share.end};
    work.division.shards = std::move(shards);
    return work;
  }
  void* address_of(const SharedValues& shared, const Work& work) const {
    return shared.at(work.first)[static_cast<std::size_t>(intra_rank())];
  }

  PieceWork work_inside(const SharedValues& shared, const GradientView& gradients,
                        const Work& work) const {
    std::vector<std::vector<Range>> needed;  // by each rank of the node
    needed.reserve(static_cast<std::size_t>(intra_size()));
    for (int other = 0; other < intra_size(); ++other)
      needed.push_back(needed_of(shared, gradients, other));
    const auto combine_in_node = [this, shared, first = work.first](Range piece) {
      const std::array<int, 1> into_own{intra_rank()};
      shared.reduce(first + piece.begin, first + piece.end, into_own);
      return true;
    };
    // No other rank writes to these elements, nor in the neighbours' memory.
    const auto give_to_node = [this, shared, first = work.first, needed](Range piece) {
      const Range of_all{first + piece.begin, first + piece.end};
      for (int other = 0; other < intra_size(); ++other)
        if (other != intra_rank())
          shared.copy(intra_rank(), other, of_all, needed[static_cast<std::size_t>(other)]);
    };
    return {combine_in_node, give_to_node};
  }

  MpiComm across_;  // ranks with the same intra_rank, one per node
  PlannedAllreduce between_nodes_;
};

constexpr bool needs_gpu = false, takes_wire_dtype = true, takes_algorithm = true;
const CommunicatorRegistration<TwoDimensionalCommunicator> registration{
    "two_dimensional",
    "shared memory or NCCL in nodes, allreduce of each share between them",
    "the same number of ranks on every node",
    needs_gpu,
    takes_wire_dtype,
    takes_algorithm};

}  // namespace
}  // namespace tasuki

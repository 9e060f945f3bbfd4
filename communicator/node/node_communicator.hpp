// NodeCommunicator: the base of kinds that first combine values inside nodes: on CPUs in
// node-shared memory, on GPUs by a group of the node's GPUs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "communicator/communicator.hpp"
#include "communicator/gpu/gpu_transport.hpp"
#include "communicator/node/node_group.hpp"
#include "communicator/sum_search.hpp"

namespace tasuki {

class NodeCommunicator : public Communicator, public SumSearch {
 public:
  explicit NodeCommunicator(const CommunicatorSetup& setup)
      : Communicator(setup),
        node_(split_ranks(inter_rank(), rank())),
        ranks_of_node_(topology().ranks_of_node(inter_rank())) {}
  bool shares_memory() const override { return options().device.is_cpu(); }

  bool sums_alike() const override { return true; }
  bool adds_shards() const override { return true; }

  SumSearch* sum_search() override { return this; }
  // Where all ranks are on one node.
  bool can_search_sums() const override {
    return size() > 1 && inter_size() == 1 && options().device.is_cpu();
  }
  void begin_search() override { node_.begin_search(); }
  bool end_search() override { return node_.end_search(); }

 protected:
  NodeGroup& node() { return node_; }

  // For NodeGroup::reduce_parts(): values in private memory pass through the second-level cache.
  static constexpr std::size_t part_piece_bytes = std::size_t{256} << 10;

  // Node-shared memory if the node has several ranks.
  std::shared_ptr<Storage> allocate_memory(std::size_t bytes, Device device) override;
  // In shared memory if all ranks are on one node, else by MPI_Reduce_scatter.
  void combine_part(const Tensor& values, std::span<const Range> parts, const Tensor& own,
                    ReduceOp op) override;
  // Each part is sent to each other node once, and copied inside nodes.
  void give_parts(const Tensor& values, std::span<const Range> parts, bool once_per_node) override;
  bool has_gpu_groups() const override { return true; }

  // The values of an exchange of these gradients, which may be sums of shards.
  SharedValues of_node(const SharedValues& shared, const GradientView& gradients) const {
    return shared.with_shards_of(gradients, ranks_of_node_);
  }
  // The elements of `shared`, a piece of these gradients, that a rank of this node needs. If ranks
  // need different parts, two ranges: the part that only this rank needs, and the part that all
  // ranks need.
  std::vector<Range> needed_of(const SharedValues& shared, const GradientView& gradients,
                               int intra_rank) const;

  // The GPUs of this node's ranks, connected when they are first needed.
  GpuGroup& gpu_node();
  // An allreduce on GPUs: reduces to the node's first rank, allreduces between the first ranks of
  // all nodes (`leaders`, empty on other ranks; GpuExchange::between_nodes), and broadcasts in the
  // node.
  void through_leader_on_gpu(const Tensor& values, ReduceOp op, const MpiComm& leaders,
                             const Wire& wire = {}, bool staged = false);
  // Says where gradients travel in 16 bits, if they do; for describe_kind().
  std::string wire_text() const;

  // Whether all nodes of a job with several nodes can work on these values in place. Nodes must
  // decide alike, because they exchange the same number of pieces. Refuses values that differ
  // between ranks in type or number. Sends a message unless ranks are known to agree.
  bool all_nodes_in_place(const GradientView& values, ReduceOp op = ReduceOp::sum);

 private:
  // By a message.
  bool all_nodes_in_place(const Tensor& values, ReduceOp op);

  NodeGroup node_;
  std::vector<int> ranks_of_node_;
  std::unique_ptr<GpuGroup> gpu_node_;
  // What is known about arrays that were combined, by address and number of values.
  struct Known {
    bool in_place = false, is_agreed = false;
  };
  std::map<std::pair<const void*, std::int64_t>, Known> in_place_;
  std::int64_t new_ = 0;  // operations on arrays that ranks were not known to agree on
};

}  // namespace tasuki

// What the communicators that work inside nodes first have in common: on CPUs node-shared memory,
// on GPUs a group of the node's GPUs.
#pragma once

#include "tasuki/communicator/gpu/gpu_transport.hpp"
#include "tasuki/communicator/mpi_communicator.hpp"
#include "tasuki/communicator/node/node_group.hpp"

namespace tasuki {

class NodeCommunicator : public MpiCommunicator {
 public:
  NodeCommunicator(std::string name, MPI_Comm comm, const CommunicatorOptions& options)
      : MpiCommunicator(std::move(name), comm, options),
        node_(MpiComm::split(comm, inter_rank(), rank())) {}

  // Node-shared memory where a node has several ranks.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device = Device::cpu()) override {
    if (!device.is_cpu() || intra_size() == 1) return MpiCommunicator::allocate(bytes, device);
    const auto waiting = wait_in(Waiting::allocate, bytes);
    return node_.allocate(bytes);
  }

 protected:
  NodeGroup& node() { return node_; }

  // The GPUs of this node's ranks, connected when they are first needed.
  GpuGroup& gpu_node();
  // Allreduce on GPUs: reduce to the node's first rank, allreduce between those of all nodes
  // (`leaders`, empty elsewhere; GpuExchange::between_nodes), broadcast from it.
  void through_leader_on_gpu(const Tensor& values, ReduceOp op, const MpiComm& leaders,
                             bool staged = false);
  bool has_gpu_groups() const override { return true; }

  // Whether the nodes of a job with several can work in place on these values. All must do the
  // same, because they exchange as many pieces. Checks on the way that all ranks bring alike
  // values.
  bool all_nodes_in_place(const Tensor& values, ReduceOp op);

  // Allreduce inside the node: every rank combines its share of the elements, reading all ranks'
  // values and writing the result to all.
  static void reduce_own_share(const SharedValues& shared, int rank, int ranks) {
    const auto [begin, end] = share_of(shared.count, size_of(shared.dtype), rank, ranks);
    shared.reduce(begin, end);
  }

 private:
  NodeGroup node_;
  std::unique_ptr<GpuGroup> gpu_node_;
};

}  // namespace tasuki

// What the communicators that work in node-shared memory have in common.
#pragma once

#include "tasuki/communicator/mpi_communicator.hpp"
#include "tasuki/communicator/node_group.hpp"

namespace tasuki {

class NodeCommunicator : public MpiCommunicator {
 public:
  NodeCommunicator(std::string name, MPI_Comm comm, const CommunicatorOptions& options)
      : MpiCommunicator(std::move(name), comm, options),
        node_(MpiComm::split(comm, inter_rank(), rank())) {}

  // Node-shared memory where a node has several ranks.
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) override {
    if (!device.is_cpu() || intra_size() == 1) return MpiCommunicator::allocate(bytes, device);
    return node_.allocate(bytes);
  }

 protected:
  NodeGroup& node() { return node_; }

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
};

}  // namespace tasuki

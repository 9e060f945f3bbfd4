// auto: the best communicator for the placement and the devices found.
#include "tasuki/communicator/mpi_communicator.hpp"

namespace tasuki {
namespace {

struct Choice {
  const char* name;
  const char* reason;
};

Choice choose(const Topology& topology, Device device) {
  if (!device.is_cpu()) return {"pure_nccl", "NCCL finds the fastest way between GPUs itself"};
  if (topology.inter_size == 1) return {"single_node", "all ranks are on one node"};
  if (topology.ranks_per_node() == 0)
    return {"hierarchical", "nodes have different numbers of ranks"};
  return {"two_dimensional", "several nodes with as many ranks each"};
}

class AutoCommunicator : public MpiCommunicator {
 public:
  AutoCommunicator(const std::string& name, MPI_Comm comm, const CommunicatorOptions& options)
      : MpiCommunicator(name, comm, options),
        choice_(choose(topology(), options.device)),
        chosen_(create_communicator(choice_.name, comm, options)) {
    share_exchanges_with(dynamic_cast<const MpiCommunicator&>(*chosen_));
  }

  std::string describe() const override {
    return fmt::format("{} (chosen by auto: {})", chosen_->describe(), choice_.reason);
  }
  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) override {
    return chosen_->allocate(bytes, device);
  }
  void sum_gradients(const GradientView& gradients) override { chosen_->sum_gradients(gradients); }
  bool queues_exchanges() const override { return chosen_->queues_exchanges(); }
  std::unique_ptr<PendingExchange> start_sum_gradients(const GradientView& gradients) override {
    return chosen_->start_sum_gradients(gradients);
  }
  void allreduce(const Tensor& tensor, ReduceOp op) override { chosen_->allreduce(tensor, op); }
  void bcast_data(const Tensor& parameters) override { chosen_->bcast_data(parameters); }

 private:
  Choice choice_;
  std::unique_ptr<Communicator> chosen_;
};

constexpr bool needs_gpu = false, takes_wire_dtype = true;
const Registration<AutoCommunicator> registration{
    "auto", "the best of the others for the placement and devices found; the default",
    "memory that the ranks of a node can share (else use flat)", needs_gpu, takes_wire_dtype};

}  // namespace
}  // namespace tasuki

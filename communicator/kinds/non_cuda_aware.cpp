// non_cuda_aware: NCCL inside the node; between the nodes' first ranks an allreduce through pinned
// host memory, for any MPI.
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/node/node_communicator.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

class NonCudaAwareCommunicator : public NodeCommunicator {
 public:
  explicit NonCudaAwareCommunicator(const CommunicatorSetup& setup)
      : NodeCommunicator(setup),
        leaders_(split_ranks(intra_rank() == 0 ? 0 : MPI_UNDEFINED, inter_rank())) {}

 protected:
  std::string describe_kind() const override {
    return fmt::format(
        "non_cuda_aware: NCCL inside {} node(s), allreduce through pinned host memory between "
        "their first ranks, {} ranks{}",
        inter_size(), size(), wire_text());
  }

  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    through_leader_on_gpu(values, op, leaders_, {}, is_staged);
  }
  void sum_on_gpu(const GradientView& gradients) override {
    through_leader_on_gpu(gradients.arena, ReduceOp::sum, leaders_, wire_of(gradients), is_staged);
  }

 private:
  static constexpr bool is_staged = true;

  MpiComm leaders_;  // on the nodes' first ranks alone
};

constexpr bool needs_gpu = true, takes_wire_dtype = true, takes_algorithm = true;
const CommunicatorRegistration<NonCudaAwareCommunicator> registration{
    "non_cuda_aware", "NCCL inside nodes, allreduce through pinned memory between first ranks",
    "--gpu, any MPI", needs_gpu,
    takes_wire_dtype, takes_algorithm};

}  // namespace
}  // namespace tasuki

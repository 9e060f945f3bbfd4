// non_cuda_aware: NCCL inside the node; between the nodes' first ranks a ring of chunks through
// pinned host memory, for any MPI.
#include "tasuki/communicator/gpu/gpu_exchange.hpp"
#include "tasuki/communicator/node/node_communicator.hpp"

namespace tasuki {
namespace {

class NonCudaAwareCommunicator : public NodeCommunicator {
 public:
  NonCudaAwareCommunicator(const std::string& name, MPI_Comm comm,
                           const CommunicatorOptions& options)
      : NodeCommunicator(name, comm, options),
        leaders_(MpiComm::split(comm, intra_rank() == 0 ? 0 : MPI_UNDEFINED, inter_rank())) {}

  std::string describe() const override {
    return fmt::format(
        "non_cuda_aware: NCCL inside {} node(s), chunked ring through pinned host memory between "
        "their first ranks, {} ranks",
        inter_size(), size());
  }

 protected:
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    constexpr bool staged = true;
    through_leader_on_gpu(values, op, leaders_, staged);
  }

 private:
  MpiComm leaders_;  // on the nodes' first ranks alone
};

constexpr bool needs_gpu = true;
const Registration<NonCudaAwareCommunicator> registration{
    "non_cuda_aware", "NCCL inside nodes, ring through pinned memory between first ranks",
    "--gpu, any MPI", needs_gpu};

}  // namespace
}  // namespace tasuki

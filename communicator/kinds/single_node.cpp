// single_node: every rank adds its share of all its neighbours' values and writes the result to all
// of them, in place. On GPUs that is one NCCL allreduce.
#include "communicator/node/node_communicator.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

// Private buffers pass through the second-level cache.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;

class SingleNodeCommunicator : public NodeCommunicator {
 public:
  explicit SingleNodeCommunicator(const CommunicatorSetup& setup) : NodeCommunicator(setup) {
    if (inter_size() > 1)
      fail_everywhere(
          ErrorKind::config,
          "the communicator single_node needs all ranks on one node, but they are on {} "
          "(rank 0 on {}, rank {} on {}); use hierarchical or two_dimensional",
          inter_size(), topology().host_of[0], topology().ranks_of_node(1).front(),
          topology().host_of[static_cast<std::size_t>(topology().ranks_of_node(1).front())]);
  }

 protected:
  bool checks_agreement() const override { return true; }
  std::string describe_kind() const override {
    if (!options().device.is_cpu())
      return fmt::format("single_node: {} allreduce over {} GPUs of {}{}",
                         gpu_transport().describe(), size(), topology().host_of[0],
                         text_of_wire("on the wire"));
    return fmt::format("single_node: shared-memory allreduce over {} ranks of {}{}", size(),
                       topology().host_of[0], wire_text());
  }

  void combine(const Tensor& values, ReduceOp op) override {
    node().exchange(values, op, piece_bytes, true, [this](const SharedValues& shared) {
      const Range own = share_of(shared.count, size_of(shared.dtype), rank(), size());
      shared.reduce(own.begin, own.end);
    });
  }

  void sum(const GradientView& gradients) override {
    node().combine(gradients, ReduceOp::sum, piece_bytes, true);
  }

  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    gpu_node().allreduce(values, op, {});
  }
  void sum_on_gpu(const GradientView& gradients) override {
    gpu_node().allreduce(gradients.arena, ReduceOp::sum, wire_of(gradients).format);
  }
  void bcast_on_gpu(const Tensor& values) override { gpu_node().broadcast(values, 0); }
  void give_parts_on_gpu(const Tensor& values, std::span<const Range> parts) override {
    gpu_node().give_parts(values, parts);
  }
  bool queues_on_gpu() const override { return true; }
};

constexpr bool needs_gpu = false, takes_wire_dtype = true;
const CommunicatorRegistration<SingleNodeCommunicator> registration{
    "single_node", "allreduce in shared memory; with --gpu by NCCL", "all ranks on one node",
    needs_gpu, takes_wire_dtype};

}  // namespace
}  // namespace tasuki

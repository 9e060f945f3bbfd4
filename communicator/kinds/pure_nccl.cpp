// pure_nccl: one ncclAllReduce over the GPUs of all ranks.
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/mpi/mpi.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

class PureNcclCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

 protected:
  std::string describe_kind() const override {
    return fmt::format("pure_nccl: {} allreduce over the GPUs of {} ranks, {} on the wire",
                       gpu_transport().describe(), size(), name_of(options().wire_dtype));
  }

  void sum_on_gpu(const GradientView& gradients) override {
    group().allreduce(gradients.arena, ReduceOp::sum, wire_of(gradients).format);
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    group().allreduce(values, op, {});
  }
  void bcast_on_gpu(const Tensor& values) override { group().broadcast(values, 0); }
  void give_parts_on_gpu(const Tensor& values, std::span<const Range> parts) override {
    group().give_parts(values, parts);
  }
  bool queues_on_gpu() const override { return true; }
  bool has_gpu_groups() const override { return true; }

 private:
  // Connected by the first call.
  GpuGroup& group() {
    if (!group_) group_ = gpu().connect(comm().get());
    return *group_;
  }

  std::unique_ptr<GpuGroup> group_;
};

constexpr bool needs_gpu = true, takes_wire_dtype = true;
const CommunicatorRegistration<PureNcclCommunicator> registration{
    "pure_nccl", "one NCCL allreduce over all GPUs", "--gpu, NCCL between all ranks", needs_gpu,
    takes_wire_dtype};

}  // namespace
}  // namespace tasuki

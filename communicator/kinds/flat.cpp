// flat: one allreduce of the whole arena over all ranks, MPI's own unless another algorithm is
// wanted; directly from a GPU's memory if MPI supports that.
#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

class FlatCommunicator : public Communicator {
 public:
  explicit FlatCommunicator(const CommunicatorSetup& setup)
      : Communicator(setup),
        allreduce_(rank(), size(),
                   {algorithm(), options().sizes,
                    network_of(topology(), options().link, options().link_inside)}) {}
  bool adds_shards() const override { return true; }

 protected:
  std::string describe_kind() const override {
    const std::string where = way_of(options()) + text_of_wire("on the wire");
    if (algorithm() != AllreduceAlgorithm::mpi)
      return fmt::format("flat: one allreduce of all gradients over {} ranks ({}){}", size(),
                         allreduce_.describe(), where);
    return fmt::format("flat: one MPI_Allreduce of all gradients over {} ranks{}", size(), where);
  }

  void combine(const Tensor& values, ReduceOp op) override {
    if (!values.device().is_cpu()) return Communicator::combine(values, op);
    allreduce_.run(values.raw(), values.count(), values.dtype(), op, comm().get());
  }
  void sum(const GradientView& gradients) override {
    if (algorithm() == AllreduceAlgorithm::mpi && gradients.is_scattered() && !gradients.shards)
      return sum_scattered(gradients);
    agree_on(gradients);
    sum_planned(gradients.arena, gradients);
  }

  bool sums_in_slices() const override { return allreduce_.runs_in_slices(); }
  std::unique_ptr<SlicedWork> start_sum(const GradientView& gradients) override {
    if (!sums_in_slices()) return nullptr;
    const Tensor& values = gradients.arena;
    return allreduce_.start(values.raw(), division_of(gradients), values.dtype(), ReduceOp::sum,
                            comm().get(), {}, wire_of(gradients));
  }

  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    gpu().with_mpi(values, [&](const Tensor& reachable) { combine(reachable, op); });
  }
  void sum_on_gpu(const GradientView& gradients) override {
    if (!is_rounded()) return Communicator::sum_on_gpu(gradients);
    gpu().on_host(gradients.arena, [&](const Tensor& host) { sum_planned(host, gradients); });
  }

 private:
  bool is_rounded() const { return options().wire_dtype != DType::float32; }
  // MPI's own would not give all ranks the same bits.
  std::optional<AllreduceAlgorithm> algorithm() const {
    if (is_rounded()) return options().algorithm;
    return options().algorithm.value_or(AllreduceAlgorithm::mpi);
  }
  Division division_of(const GradientView& gradients) const {
    return tasuki::division_of(gradients, 0, gradients.arena.count(), size(),
                               [](int rank) { return rank; });
  }
  // `values`: the gradients in host memory.
  void sum_planned(const Tensor& values, const GradientView& gradients) {
    allreduce_.run(values.raw(), division_of(gradients), values.dtype(), ReduceOp::sum,
                   comm().get(), {}, wire_of(gradients));
  }

  PlannedAllreduce allreduce_;
};

constexpr bool needs_gpu = false, takes_wire_dtype = true, takes_algorithm = true;
const CommunicatorRegistration<FlatCommunicator> registration{
    "flat",         "one MPI_Allreduce of all gradients", "any MPI", needs_gpu, takes_wire_dtype,
    takes_algorithm};

}  // namespace
}  // namespace tasuki

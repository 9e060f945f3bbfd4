// naive: one MPI_Allreduce per parameter. The simplest correct way, a baseline for the others.
#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

class NaiveCommunicator : public Communicator {
 public:
  explicit NaiveCommunicator(const CommunicatorSetup& setup)
      : Communicator(setup),
        planned_(rank(), size(),
                 {.sizes = options().sizes,
                  .network = network_of(topology(), options().link, options().link_inside)}) {}
  bool adds_shards() const override { return true; }

 protected:
  std::string describe_kind() const override {
    return fmt::format("naive: one {} per parameter over {} ranks{}{}",
                       is_rounded() ? "allreduce" : "MPI_Allreduce", size(), way_of(options()),
                       text_of_wire("on the wire"));
  }

  void sum(const GradientView& gradients) override {
    if (!gradients.is_agreed) {
      std::string shapes = name_of(gradients.arena.dtype());
      for (const auto& [offset, count] : gradients.segments) shapes += fmt::format(" {}", count);
      require_agreement("sum_gradients", shapes);
    }
    sum_segments(gradients.arena, gradients);
  }
  void sum_on_gpu(const GradientView& gradients) override {
    const auto work = [&](const Tensor& reachable) { sum_segments(reachable, gradients); };
    if (is_rounded())
      gpu().on_host(gradients.arena, work);
    else
      gpu().with_mpi(gradients.arena, work);
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    gpu().with_mpi(values, [&](const Tensor& reachable) { combine(reachable, op); });
  }

 private:
  bool is_rounded() const { return options().wire_dtype != DType::float32; }

  void sum_segments(const Tensor& values, const GradientView& gradients) {
    const Wire wire = wire_of(gradients);
    for (const auto& [offset, count] : gradients.segments) {
      const Tensor segment = values.slice(offset, offset + count);
      if (is_rounded() || gradients.shards)
        planned_.run(segment.raw(),
                     division_of(gradients, offset, count, size(), [](int rank) { return rank; }),
                     segment.dtype(), ReduceOp::sum, comm().get(), {}, wire.from(offset));
      else
        combine(segment, ReduceOp::sum);
    }
  }

  PlannedAllreduce planned_;  // where MPI_Allreduce would not give the right bits on all ranks
};

constexpr bool needs_gpu = false, takes_wire_dtype = true;
const CommunicatorRegistration<NaiveCommunicator> registration{
    "naive", "one MPI_Allreduce per parameter", "any MPI", needs_gpu, takes_wire_dtype};

}  // namespace
}  // namespace tasuki

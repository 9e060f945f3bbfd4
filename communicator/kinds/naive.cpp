// naive: one MPI_Allreduce per parameter. The simplest correct way, a baseline for the others.
#include "tasuki/communicator/gpu/gpu_exchange.hpp"
#include "tasuki/communicator/registry.hpp"

namespace tasuki {
namespace {

class NaiveCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

 protected:
  std::string describe_kind() const override {
    return fmt::format("naive: MPI_Allreduce over {} ranks, one per parameter{}", size(),
                       way_of(options().device));
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
    gpu().with_mpi(gradients.arena,
                   [&](const Tensor& reachable) { sum_segments(reachable, gradients); });
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    gpu().with_mpi(values, [&](const Tensor& reachable) { combine(reachable, op); });
  }

 private:
  void sum_segments(const Tensor& values, const GradientView& gradients) {
    for (const auto& [offset, count] : gradients.segments)
      combine(values.slice(offset, offset + count), ReduceOp::sum);
  }
};

const Registration<NaiveCommunicator> registration{"naive", "one MPI_Allreduce per parameter",
                                                   "any MPI"};

}  // namespace
}  // namespace tasuki

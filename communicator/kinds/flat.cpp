// flat: the whole arena in one MPI_Allreduce, directly from a GPU's memory if MPI supports that.
#include "tasuki/communicator/gpu/gpu_exchange.hpp"
#include "tasuki/communicator/registry.hpp"

namespace tasuki {
namespace {

class FlatCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

 protected:
  std::string describe_kind() const override {
    return fmt::format("flat: one MPI_Allreduce of all gradients over {} ranks{}", size(),
                       way_of(options().device));
  }

  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    gpu().with_mpi(values, [&](const Tensor& reachable) { combine(reachable, op); });
  }
};

const Registration<FlatCommunicator> registration{"flat", "one MPI_Allreduce of all gradients",
                                                  "any MPI"};

}  // namespace
}  // namespace tasuki

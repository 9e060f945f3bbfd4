// naive: the plainest way that is right, and the one that others are compared with.
#include "tasuki/communicator/host_values.hpp"
#include "tasuki/communicator/mpi_communicator.hpp"

namespace tasuki {
namespace {

class NaiveCommunicator : public MpiCommunicator {
 public:
  using MpiCommunicator::MpiCommunicator;

  std::string describe() const override {
    return fmt::format("naive: MPI_Allreduce over {} ranks, one per parameter", size());
  }

  void sum_gradients(const GradientView& gradients) override {
    std::string shapes = name_of(gradients.arena.dtype());
    for (const auto& [offset, count] : gradients.segments) shapes += fmt::format(" {}", count);
    require_agreement("sum_gradients", shapes);
    const HostValues values(gradients.arena);
    for (const auto& [offset, count] : gradients.segments)
      combine(values.tensor().slice(offset, offset + count), ReduceOp::sum);
    values.write_back();
  }
};

const Registration<NaiveCommunicator> registration{"naive", "one MPI_Allreduce per parameter",
                                                   "any MPI"};

}  // namespace
}  // namespace tasuki

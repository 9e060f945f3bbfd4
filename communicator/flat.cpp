// flat: the whole arena in one MPI_Allreduce.
#include "tasuki/communicator/mpi_communicator.hpp"

namespace tasuki {
namespace {

class FlatCommunicator : public MpiCommunicator {
 public:
  using MpiCommunicator::MpiCommunicator;

  std::string describe() const override {
    return fmt::format("flat: one MPI_Allreduce of all gradients over {} ranks", size());
  }
};

const Registration<FlatCommunicator> registration{"flat", "one MPI_Allreduce of all gradients",
                                                  "any MPI"};

}  // namespace
}  // namespace tasuki

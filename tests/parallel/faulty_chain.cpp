// Ranks 0 and 2 send a value to rank 1, and one of the three does not do what the others wait for.
//
//   faulty_chain KIND: backward (rank 1 computes no gradients), collective (rank 2 leaves out an
//   allgather)
#include <string>

#include "tasuki/communicator/registry.hpp"
#include "tasuki/core/activity.hpp"
#include "tasuki/job/run_job.hpp"
#include "tasuki/job/stall_limits.hpp"
#include "tasuki/parallel/functions/collectives.hpp"
#include "tasuki/parallel/functions/messages.hpp"

namespace tasuki {
namespace {

int pass_on(const std::string& kind) {
  const auto comm = create_communicator("naive");
  const int rank = comm->rank();
  const PhaseScope computing(Phase::computing);
  const Variable x(Tensor::zeros({100, 100}), true);
  if (kind == "collective") {
    if (rank == 2)
      comm->barrier();
    else
      functions::allgather(*comm, x);
    return 0;
  }
  if (rank == 1) {
    const Variable h = functions::recv(*comm, 0, functions::recv(*comm, 2));
    comm->barrier();  // in place of the backward pass
  } else {
    functions::send(x, *comm, 1).backward();
  }
  return 0;
}

}  // namespace
}  // namespace tasuki

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  return tasuki::run_job(argc, argv, [](int, char** words) {
    tasuki::StallLimits limits;
    limits.timeout = 1;
    limits.warning = 0.5;
    tasuki::set_stall_limits(limits);
    return tasuki::pass_on(words[1]);
  });
}

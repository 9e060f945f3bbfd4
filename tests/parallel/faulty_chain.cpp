// Ranks exchange values, and one does not do what the others wait for.
//
//   faulty_chain KIND
//
//   backward    3 ranks: 0 and 2 send to rank 1, which computes no gradients
//   chain       4 ranks: each sends to the next one, and the last computes no gradients
//   split       4 ranks in two groups: rank 2 sends to rank 3, which computes no gradients
//   collective  3 ranks: rank 2 leaves out an allgather
//   pipeline    a stage of each rank; the last one fails in its third forward pass
//
// Ranks that leave something out go to a barrier instead.
#include <string>

#include "communicator/registry.hpp"
#include "core/activity.hpp"
#include "job/run_job.hpp"
#include "job/stall_limits.hpp"
#include "nn/functions/arrays.hpp"
#include "parallel/functions/collectives.hpp"
#include "parallel/functions/messages.hpp"
#include "parallel/pipeline.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

Variable value() {
  return Variable(Tensor::zeros({100, 100}), true);
}

void send_to_rank_1(Communicator& comm) {
  if (comm.rank() == 1)
    F::recv(comm, 0, F::recv(comm, 2));
  else
    F::send(value(), comm, 1).backward();
}

void pass_along(Communicator& comm) {
  const Variable h = comm.rank() == 0 ? value() : F::recv(comm, comm.rank() - 1);
  if (comm.rank() + 1 < comm.size()) F::send(h, comm, comm.rank() + 1).backward();
}

void pass_in_groups(Communicator& comm) {
  const auto group = comm.split(comm.rank() / 2, comm.rank());
  if (group->rank() == 0)
    F::send(value(), *group, 1).backward();
  else if (const Variable h = F::recv(*group, 0); comm.rank() == 1)
    F::sum(h).backward();
  comm.barrier();  // while the group is there
}

void run_pipeline(Communicator& comm) {
  LinkRanks ranks;
  if (comm.rank() > 0) ranks.in = {comm.rank() - 1};
  const bool is_last = comm.rank() + 1 == comm.size();
  if (!is_last) ranks.out = {comm.rank() + 1};
  MultiNodeChainList chain(comm);
  int calls = 0;
  chain.add_link(
      [&](const MultiNodeChainList::Values& values) {
        if (++calls == 3 && is_last) fail(ErrorKind::data, "a bad example");
        return values;
      },
      ranks);
  Pipeline(chain, 4).run(
      [&](std::int64_t) {
        const Variable y = chain(comm.rank() == 0 ? value() : Variable());
        return is_last ? F::sum(y) : y;
      },
      [](std::int64_t, const Variable& loss) { loss.backward(); });
}

void run(const std::string& kind) {
  const auto comm = create_communicator("naive");
  const PhaseScope computing(Phase::computing);
  if (kind == "backward") send_to_rank_1(*comm);
  if (kind == "chain") pass_along(*comm);
  if (kind == "split") pass_in_groups(*comm);
  if (kind == "pipeline") run_pipeline(*comm);
  if (kind == "collective" && comm->rank() != 2) F::allgather(*comm, value());
  comm->barrier();
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
    tasuki::run(words[1]);
    return 0;
  });
}

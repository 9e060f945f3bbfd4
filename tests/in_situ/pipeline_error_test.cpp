// An error of one stage of a pipeline, in a program that goes on, reaches the other stages.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "guest_training.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/loss.hpp"
#include "parallel/pipeline.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

namespace F = tasuki::functions;
using Values = MultiNodeChainList::Values;

// Runs a step of 4 micro-batches with values that are too long to be sent without a receiver.
// `component` gets the number of its call.
void run_step(Communicator& comm, const std::function<void(int call)>& component) {
  LinkRanks ranks;
  if (comm.rank() > 0) ranks.in = {comm.rank() - 1};
  if (comm.rank() + 1 < comm.size()) ranks.out = {comm.rank() + 1};
  MultiNodeChainList chain(comm);
  const Variable bias(Tensor::zeros({300, 300}), /*requires_grad=*/true);
  int calls = 0;
  chain.add_link(
      [&](const Values& values) -> Values {
        component(calls++);
        return {F::add(values.at(0), bias)};
      },
      ranks);
  const Tensor x = Tensor::zeros({300, 300});
  Pipeline(chain, 4).run(
      [&](std::int64_t) {
        const Variable y = chain(comm.rank() == 0 ? Variable(x) : Variable());
        return comm.rank() + 1 < comm.size() ? y : F::mean_squared_error(y, x);
      },
      [](std::int64_t, const Variable& loss) { loss.backward(); });
}

TEST(PipelineError, OfOneStageReachesTheOthers) {
  const int ranks = size_of(MPI_COMM_WORLD);
  for (int failing = 0; failing < ranks; ++failing) {
    SCOPED_TRACE(failing);
    {
      const auto comm = create_communicator("naive");
      const auto step = [&] {
        run_step(*comm, [&](int call) {
          if (comm->rank() == failing && call == 2) throw std::runtime_error("the stage broke");
        });
      };
      if (comm->rank() == failing)
        EXPECT_THROW(step(), std::runtime_error);
      else
        expect_error(ErrorKind::io, {fmt::format("rank {} on ", failing), "the stage broke"}, step);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const auto next = create_communicator("naive");
    run_step(*next, [](int) {});
  }
}

}  // namespace
}  // namespace tasuki::testing

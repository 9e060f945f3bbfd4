// A loss over the examples of all ranks: mpirun -np 2 contrastive
//
// Two networks learn which views belong together, as in CLIP: an example's first view is compared
// with the second views of all examples, which allgather() collects from all ranks, and through
// which gradients travel back. So the loss is the same for any number of ranks.
#include <iostream>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t values = 16, units = 64, width = 8, global_batch = 60, steps = 300;

class TwoTowers : public Module {
 public:
  TwoTowers() : left(values, units, width), right(values, units, width) {
    add("left", left);
    add("right", right);
  }
  MLP left, right;
};

// Rows `first` to `last` of a global batch: the same numbers in two orders.
struct Views {
  Tensor left, right;
};
Views views_of(std::uint64_t step, std::int64_t first, std::int64_t last) {
  std::vector<float> left, right;
  for (std::int64_t row = first; row < last; ++row) {
    RandomStream random(step * global_batch + row);
    std::vector<float> numbers(values);
    for (float& number : numbers) number = random.normal();
    left.insert(left.end(), numbers.begin(), numbers.end());
    right.insert(right.end(), numbers.rbegin(), numbers.rend());
  }
  const Shape shape{last - first, values};
  return {Tensor::from<float>(left, shape), Tensor::from<float>(right, shape)};
}

int train(int, char**) {
  const auto comm = create_communicator("auto");
  // The optimizer's is busy during the backward pass.
  const auto own = comm->split(0, comm->rank());
  TwoTowers model;
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *comm);
  optimizer->setup(model);

  const std::int64_t first = global_batch * comm->rank() / comm->size();
  const std::int64_t last = global_batch * (comm->rank() + 1) / comm->size();
  std::vector<std::int64_t> partners;  // of this rank's rows among all second views
  for (std::int64_t row = first; row < last; ++row) partners.push_back(row);
  const Tensor t = Tensor::from<std::int64_t>(partners, {last - first});

  for (std::int64_t step = 1; step <= steps; ++step) {
    const Views views = views_of(step, first, last);
    const Tensor loss = optimizer->update(
        [&] {
          const Variable a = model.left(Variable(views.left));
          const Variable b = model.right(Variable(views.right));
          const Variable all = F::concat(F::allgather(*own, b), /*axis=*/0);
          return F::softmax_cross_entropy(F::matmul(a, all, false, /*transpose_b=*/true), t);
        },
        last - first);
    if (step % 100 != 0) continue;
    Observation seen;
    seen.add_mean("loss", loss, last - first);
    const Observation everywhere = seen.over_ranks(comm.get());
    if (comm->rank() == 0)
      std::cout << "step " << step << ", loss " << *everywhere.mean("loss") << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}

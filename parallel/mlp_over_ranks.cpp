#include "parallel/mlp_over_ranks.hpp"

#include "nn/connection.hpp"

namespace tasuki {

std::unique_ptr<MultiNodeChainList> mlp_over_ranks(Communicator& communicator, std::int64_t n_in,
                                                   std::int64_t units, std::int64_t n_out) {
  TASUKI_CHECK(communicator.size() == 2, "a perceptron on two ranks was given {}",
               communicator.size());
  const auto hidden = [](std::int64_t in, std::int64_t out) {
    return std::make_unique<Linear>(in, out, /*bias=*/true, initializers::lecun_normal(),
                                    /*relu=*/true);
  };
  auto model = std::make_unique<MultiNodeChainList>(communicator);
  if (communicator.rank() == 0) {
    model->add_link("l1", hidden(n_in, units), {.out = {1}});
    model->add_link([](const auto& scores) { return scores; }, {.in = {1}});
  } else {
    model->add_link("l2", hidden(units, units), {.in = {0}, .out = {1}});
    model->add_link("l3", std::make_unique<Linear>(units, n_out), {.in = {1}, .out = {0}});
  }
  return model;
}

}  // namespace tasuki

#include "parallel/mlp_over_ranks.hpp"

#include "nn/connection.hpp"

namespace tasuki {
namespace {

std::unique_ptr<Linear> hidden_layer(std::int64_t in, std::int64_t out) {
  return std::make_unique<Linear>(in, out, /*bias=*/true, initializers::lecun_normal(),
                                  /*relu=*/true);
}

void check_two_ranks(const Communicator& communicator) {
  TASUKI_CHECK(communicator.size() == 2, "a perceptron on two ranks was given {}",
               communicator.size());
}

// Rank 1 of a perceptron in stages.
class LastStage final : public MultiNodeChainList {
 public:
  LastStage(Communicator& communicator, std::int64_t units, std::int64_t n_out)
      : MultiNodeChainList(communicator), l2_(hidden_layer(units, units)), l3_(units, n_out) {
    add("l2", *l2_);
    add("l3", l3_);
    add_link([this](const Values& values) -> Values { return {l3_((*l2_)(values.at(0)))}; },
             {.in = {0}});
  }

 private:
  std::unique_ptr<Linear> l2_;
  Linear l3_;
};

}  // namespace

std::unique_ptr<MultiNodeChainList> mlp_over_ranks(Communicator& communicator, std::int64_t n_in,
                                                   std::int64_t units, std::int64_t n_out) {
  check_two_ranks(communicator);
  auto model = std::make_unique<MultiNodeChainList>(communicator);
  if (communicator.rank() == 0) {
    model->add_link("l1", hidden_layer(n_in, units), {.out = {1}});
    model->add_link([](const auto& scores) { return scores; }, {.in = {1}});
  } else {
    model->add_link("l2", hidden_layer(units, units), {.in = {0}, .out = {1}});
    model->add_link("l3", std::make_unique<Linear>(units, n_out), {.in = {1}, .out = {0}});
  }
  return model;
}

std::unique_ptr<MultiNodeChainList> mlp_in_stages(Communicator& communicator, std::int64_t n_in,
                                                  std::int64_t units, std::int64_t n_out) {
  check_two_ranks(communicator);
  if (communicator.rank() == 1) return std::make_unique<LastStage>(communicator, units, n_out);
  auto model = std::make_unique<MultiNodeChainList>(communicator);
  model->add_link("l1", hidden_layer(n_in, units), {.out = {1}});
  return model;
}

}  // namespace tasuki

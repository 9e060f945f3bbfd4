// Functions of sequences, as reference_check.hpp says.
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "nn/backward.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/sequences.hpp"
#include "reference_check.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(SequenceReference, EmbedId) {
  check_file("embed_id", [](const Inputs& in, const ReferenceCase& test) {
    std::optional<std::int64_t> ignore;
    if (test.options.contains("ignore")) ignore = test.options["ignore"].get<std::int64_t>();
    return F::embed_id(in.at("t").value(), in.at("w"), ignore);
  });
}

// The result and the final states as one array, so that both have gradients.
Variable run_recurrent(const Inputs& in, const ReferenceCase& test, Recurrence kind) {
  F::RecurrentWeights weights;
  for (std::int64_t i = 0; i < 2 * gates_of(kind); ++i) {
    weights.w.push_back(in.at(fmt::format("w{}", i)));
    weights.b.push_back(in.at(fmt::format("b{}", i)));
  }
  const auto [y, states] =
      F::recurrent(kind, in.at("x"), in.at("t").value(), testing::optional(in, "states"), weights,
                   test.options.contains("reversed"));
  return F::concat({y, states}, 1);
}

TEST(SequenceReference, Lstm) {
  check_file("lstm", [](const Inputs& in, const ReferenceCase& test) {
    return run_recurrent(in, test, Recurrence::lstm);
  });
}

TEST(SequenceReference, Gru) {
  check_file("gru", [](const Inputs& in, const ReferenceCase& test) {
    return run_recurrent(in, test, Recurrence::gru);
  });
}

// A pass through a graph that was kept takes the gradients of the results that it met alone.
TEST(Recurrent, RetainedGraphUsesEachPassesGradients) {
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru}) {
    const auto x = [] { return Variable(testing::random_tensor({2, 3, 4}, 1), true); };
    F::RecurrentWeights weights;
    for (int i = 0; i < 2 * gates_of(kind); ++i) {
      weights.w.emplace_back(testing::random_tensor(i < gates_of(kind) ? Shape{5, 4} : Shape{5, 5},
                                                    static_cast<std::uint64_t>(i + 2)));
      weights.b.emplace_back(testing::random_tensor({5}, 20));
    }
    const Tensor lengths = Tensor::full({2}, 3, DType::int64);
    const auto loss_of = [&](const Variable& in, bool of_states) {
      const auto [y, states] = F::recurrent(kind, in, lengths, {}, weights, false);
      return std::array{F::sum(of_states ? states : y), F::sum(of_states ? y : states)};
    };
    for (const bool states_first : {false, true}) {
      const Variable kept = x(), apart = x();
      const auto losses = loss_of(kept, states_first);
      run_backward(losses[0], {.seed = Tensor::full({}, 1), .keeps_graph = true});
      losses[1].backward();
      for (const std::size_t i : {0, 1}) loss_of(apart, states_first)[i].backward();
      EXPECT_LT(testing::relative_error(kept.grad(), apart.grad()), 1e-6);

      // Nor does a pass that failed leave some: here after the sum and the result below it.
      const Variable failed = x(), only = x();
      const auto others = loss_of(failed, states_first);
      const auto fail = [functions = 0]() mutable {
        if (++functions == 2) throw std::runtime_error("planted");
      };
      EXPECT_THROW(
          run_backward(others[0],
                       {.seed = Tensor::full({}, 1), .between = fail, .keeps_graph = true}),
          std::runtime_error);
      others[1].backward();
      loss_of(only, states_first)[1].backward();
      EXPECT_LT(testing::relative_error(failed.grad(), only.grad()), 1e-6);
    }
  }
}

TEST(EmbedId, AcceptsIdsOfBothTypesAndAnyShape) {
  EmbedID layer(5, 3);
  layer.initialize(1);
  const std::array<std::int64_t, 6> ids = {4, 0, 2, 2, 1, 4};
  const Tensor wide = Tensor::from(std::span<const std::int64_t>(ids), {6});
  const Tensor narrow = wide.to(DType::int32).reshape({2, 1, 3});
  const Variable y = layer(Variable(wide)), z = layer(Variable(narrow));
  EXPECT_EQ(z.shape(), (Shape{2, 1, 3, 3}));
  for (std::int64_t i = 0; i < 18; ++i)
    EXPECT_EQ(y.value().data<float>()[i], z.value().data<float>()[i]);
}

TEST(EmbedId, NamesOutOfRangeId) {
  EmbedID layer(5, 3), ignoring(5, 3, initializers::zero(), -1);
  layer.initialize(1);
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{5}}) {
    const Variable ids(Tensor::full({1, 2}, static_cast<double>(id), DType::int64));
    try {
      layer(ids);
      ADD_FAILURE() << "no error for id " << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what())
                    .find("id " + std::to_string(id) + " at place 0 of 1x2 is not in 0 .. 4"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_NO_THROW(ignoring(Variable(Tensor::full({1, 2}, -1, DType::int64))));
}

}  // namespace
}  // namespace tasuki

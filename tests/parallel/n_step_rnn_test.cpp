// Sequences that go on from rank to rank teach what they teach in one process.
#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/functions/loss.hpp"
#include "parallel/functions/messages.hpp"
#include "parallel/multi_node_n_step_rnn.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr std::int64_t examples = 4, hidden = 6;

Tensor random_values(const Shape& shape, std::uint64_t seed) {
  const Tensor made = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

// What is different on each rank: the weights, the inputs, their size and the sequences' length.
std::unique_ptr<NStepRNN> network_of(int rank, Recurrence kind, NStepRNN::Direction direction) {
  auto made = std::make_unique<NStepRNN>(kind, direction, 2, rank + 2, hidden);
  made->initialize(static_cast<std::uint64_t>(rank));
  return made;
}
Tensor input_of(int rank) {
  return random_values({examples, rank + 3, rank + 2}, 10 + static_cast<std::uint64_t>(rank));
}
Tensor lengths_of(int rank) {
  const Tensor lengths = Tensor::empty({examples}, DType::int64);
  for (std::int64_t i = 0; i < examples; ++i)
    lengths.data<std::int64_t>()[i] = (i * 2 + rank) % (rank + 4);
  return lengths;
}

TEST(MultiNodeNStepRnn, ChainMatchesOneProcess) {
  const auto comm = create_communicator("naive");
  const int rank = comm->rank(), size = comm->size();
  const bool is_last = rank == size - 1;
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru})
    for (const auto direction : {NStepRNN::Direction::forward, NStepRNN::Direction::both}) {
      std::vector<std::unique_ptr<NStepRNN>> whole;
      std::vector<Variable> states;
      NStepRNN::Result expected;
      for (int each = 0; each < size; ++each) {
        whole.push_back(network_of(each, kind, direction));
        expected = whole.back()->forward(Variable(input_of(each)), lengths_of(each), states);
        states = expected.states;
      }
      const Tensor target = random_values(expected.y.shape(), 99);
      F::mean_squared_error(expected.y, target).backward();

      const auto model =
          create_multi_node_n_step_rnn(network_of(rank, kind, direction), *comm,
                                       rank > 0 ? std::optional(rank - 1) : std::nullopt,
                                       is_last ? std::nullopt : std::optional(rank + 1));
      EXPECT_EQ(model->communicates(), size > 1);
      const auto result = model->forward(Variable(input_of(rank)), lengths_of(rank));
      if (is_last) {
        EXPECT_FALSE(result.delegate.defined());
        F::mean_squared_error(result.y, target).backward();
      } else {
        result.delegate.backward();
      }
      const auto own = model->parameters();
      const auto all = whole[static_cast<std::size_t>(rank)]->parameters();
      ASSERT_EQ(own.size(), all.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_EQ(own[i].path, "actual_rnn/" + all[i].path);
        // The upper layer's output on other ranks than the last is used by nobody.
        ASSERT_EQ(own[i].parameter->has_grad(), all[i].parameter->has_grad()) << own[i].path;
        if (!all[i].parameter->has_grad()) continue;
        const auto a = own[i].parameter->grad().span<float>(),
                   b = all[i].parameter->grad().span<float>();
        for (std::size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], 1e-6) << own[i].path;
      }
    }
}

}  // namespace
}  // namespace tasuki

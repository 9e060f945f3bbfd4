// Values and gradients that travel between ranks are those that one process would compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "core/range.hpp"
#include "nn/backward.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "parallel/functions/collectives.hpp"
#include "parallel/functions/messages.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/weighted_sum.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using F::pseudo_connect;
using testing::weighted_sum;

const std::vector<DType> float_types = {DType::float32, DType::float64, DType::float16,
                                        DType::bfloat16};

// Small integers, which all types hold exactly: first, first + 1, ...
Tensor numbers(const Shape& shape, int first, DType dtype = DType::float32) {
  const Tensor made = Tensor::empty(shape);
  std::iota(made.span<float>().begin(), made.span<float>().end(), static_cast<float>(first));
  return made.to(dtype);
}

Tensor times(const Tensor& tensor, int factor) {
  const Tensor made = tensor.to(DType::float32).clone();
  for (float& value : made.span<float>()) value *= static_cast<float>(factor);
  return made.to(tensor.dtype());
}

void expect_equal(const Tensor& found, const Tensor& expected) {
  ASSERT_TRUE(found.defined());
  ASSERT_EQ(found.shape(), expected.shape());
  ASSERT_EQ(found.dtype(), expected.dtype());
  const Tensor a = found.to(DType::float32), b = expected.to(DType::float32);
  for (std::int64_t i = 0; i < a.count(); ++i)
    ASSERT_EQ(a.data<float>()[i], b.data<float>()[i]) << "element " << i;
}

class FunctionsBetweenRanks : public ::testing::Test {
 protected:
  // A value of rank r, whose shape depends on the rank unless `alike`.
  static Shape shape_of(int rank, bool alike) { return alike ? Shape{3, 2} : Shape{rank + 1, 2}; }
  Variable value_of(int rank, bool alike, DType dtype) const {
    return Variable(numbers(shape_of(rank, alike), 10 * rank, dtype), true);
  }
  template <class Check>
  void for_all_kinds_of_values(Check&& check) const {
    for (const DType dtype : float_types)
      for (const bool alike : {true, false}) {
        SCOPED_TRACE(fmt::format("{}, {}", name_of(dtype), alike ? "one shape" : "shapes differ"));
        check(dtype, alike);
      }
  }
  std::vector<int> all_ranks() const {
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  const std::unique_ptr<Communicator> comm_ = create_communicator("naive");
  const int rank_ = comm_->rank(), size_ = comm_->size();
};

// --- messages ---

// A model of one layer for each rank.
struct Chain {
  explicit Chain(int layers) {
    RandomStream random(3);
    for (int i = 0; i < layers; ++i) {
      const Tensor w = Tensor::empty({5, 5});
      for (float& value : w.span<float>()) value = random.normal() / 2;
      weights.emplace_back(w, true);
    }
  }
  Variable layer(int i, const Variable& x) const {
    return F::sigmoid(F::linear(x, weights[static_cast<std::size_t>(i)], Variable()));
  }
  std::vector<Variable> weights;
};

TEST_F(FunctionsBetweenRanks, ChainMatchesOneProcess) {
  const Chain here(size_), whole(size_);
  const Tensor input = numbers({4, 5}, -7), target = numbers({4, 5}, 0);
  Variable x(input.clone(), true), expected_x(input.clone(), true), y = expected_x;
  for (int i = 0; i < size_; ++i) y = whole.layer(i, y);
  F::mean_squared_error(y, target).backward();

  Variable h = rank_ == 0 ? x : F::recv(*comm_, rank_ - 1);
  h = here.layer(rank_, h);
  if (rank_ < size_ - 1) {
    F::send(h, *comm_, rank_ + 1).backward();
  } else {
    expect_equal(h.value().plain(), y.value().plain());
    F::mean_squared_error(h, target).backward();
  }
  const auto own = static_cast<std::size_t>(rank_);
  expect_equal(here.weights[own].grad(), whole.weights[own].grad());
  if (rank_ == 0) expect_equal(x.grad(), expected_x.grad());
}

// A value goes round and comes back to rank 0, where its loss is: a backward pass that starts there
// reaches what was sent only through the delegate variable.
TEST_F(FunctionsBetweenRanks, DelegateVariableLeadsBackToSentValues) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  const Chain chain(size_);
  const auto own = static_cast<std::size_t>(rank_);
  const Tensor input = numbers({2, 5}, 1), target = numbers({2, 5}, 0);
  if (rank_ == 0) {
    const Variable delegate = F::send(chain.layer(0, Variable(input)), *comm_, next, /*tag=*/5);
    const Variable back = F::recv(*comm_, previous, delegate, /*tag=*/5);
    F::mean_squared_error(back, target).backward();
  } else {
    const Variable h = F::recv(*comm_, previous, {}, 5);
    F::send(chain.layer(rank_, h), *comm_, next, 5).backward();
  }
  const Chain whole(size_);
  Variable y(input);
  for (int i = 0; i < size_; ++i) y = whole.layer(i, y);
  F::mean_squared_error(y, target).backward();
  expect_equal(chain.weights[own].grad(), whole.weights[own].grad());
}

TEST_F(FunctionsBetweenRanks, BackwardStopsAtReceivedValuesWithoutDelegate) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  if (rank_ > 1) return;
  const Variable w(numbers({3}, 1), true);
  if (rank_ == 0) {
    F::send(w, *comm_, 1);
    const Variable back = F::recv(*comm_, 1);
    weighted_sum({back}, {numbers({3}, 4)}).backward();
    EXPECT_FALSE(w.grad().defined());
  } else {
    const Variable h = F::recv(*comm_, 0);
    // Only this function of the two has a counterpart that runs backward.
    F::send(Variable(h.value()), *comm_, 0).backward();
  }
}

TEST_F(FunctionsBetweenRanks, RingPassesValuesAndGradientsOfEveryType) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  for_all_kinds_of_values([&](DType dtype, bool alike) {
    const Variable x = value_of(rank_, alike, dtype);
    // Rank 0 begins, so that no two ranks wait for each other.
    Variable delegate, received;
    if (rank_ == 0) delegate = F::send(x, *comm_, next);
    received = F::recv(*comm_, previous, delegate);
    if (rank_ != 0) delegate = F::send(x, *comm_, next);
    expect_equal(received.value(), value_of(previous, alike, dtype).value());
    weighted_sum({received, delegate}, {times(received.value(), 3), Tensor::zeros({})}).backward();
    expect_equal(x.grad(), times(x.value(), 3));
  });
}

TEST_F(FunctionsBetweenRanks, SendSeveralValuesInOneMessage) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  for (const std::size_t count : {1U, 2U, 3U}) {
    if (rank_ == 0) {
      std::vector<Variable> xs;
      for (std::size_t i = 0; i < count; ++i)
        xs.emplace_back(numbers({static_cast<int>(i) + 1, 2}, static_cast<int>(i)), i != 1);
      F::send(xs, *comm_, 1).backward();
      for (std::size_t i = 0; i < count; ++i)
        if (i != 1)  // Nothing is computed from the last of three.
          expect_equal(xs[i].grad(), times(xs[i].value(), i == 2 ? 0 : 2));
      EXPECT_TRUE(count == 1 || !xs[1].grad().defined());
    } else if (rank_ == 1) {
      std::vector<Variable> received = F::recv_many(*comm_, 0);
      ASSERT_EQ(received.size(), count);
      received.resize(std::min<std::size_t>(count, 2));
      std::vector<Tensor> weights;
      for (const Variable& each : received) weights.push_back(times(each.value(), 2));
      weighted_sum(received, weights).backward();
    }
  }
}

// The receiver sends a gradient, which the sender must take although it needs none.
TEST_F(FunctionsBetweenRanks, InputsWithoutGradientsDoNotBlockReceivers) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  if (rank_ == 0) F::send(Variable(numbers({100, 100}, 0)), *comm_, 1).backward();
  if (rank_ == 1) weighted_sum({F::recv(*comm_, 0)}, {Tensor::zeros({100, 100})}).backward();
}

TEST_F(FunctionsBetweenRanks, RecordNothingWithoutGradients) {
  if (size_ == 1) GTEST_SKIP() << "needs several ranks";
  const NoGrad evaluating;
  Variable found;
  if (rank_ == 0) found = F::send(value_of(0, true, DType::float32), *comm_, 1);
  if (rank_ == 1) found = F::recv(*comm_, 0);
  EXPECT_FALSE(found.node());
  for (const Variable& each : F::allgather(*comm_, Variable(numbers({2}, rank_))))
    EXPECT_FALSE(each.node());
}

TEST_F(FunctionsBetweenRanks, PseudoConnectIsIdentityInBothPasses) {
  const Variable delegate(Tensor::zeros({}), true), x(numbers({2, 3}, 1), true),
      y(numbers({4}, 1), true);
  const std::vector<Variable> connected = pseudo_connect(delegate, {x, y});
  expect_equal(connected[0].value(), x.value());
  expect_equal(connected[1].value(), y.value());
  weighted_sum(connected, {times(x.value(), 5), times(y.value(), 7)}).backward();
  expect_equal(x.grad(), times(x.value(), 5));
  expect_equal(y.grad(), times(y.value(), 7));
  expect_equal(delegate.grad(), Tensor::zeros({}));
}

// --- collectives ---

TEST_F(FunctionsBetweenRanks, BroadcastSumsGradientsAtTheRoot) {
  for (const int root : all_ranks())
    for_all_kinds_of_values([&](DType dtype, bool alike) {
      const Variable own = value_of(root, alike, dtype);
      const Variable y = F::bcast(*comm_, rank_ == root ? own : Variable(), root);
      expect_equal(y.value(), own.value());
      weighted_sum({y}, {times(numbers(y.shape(), 1, dtype), rank_ + 1)}).backward();
      if (rank_ == root)
        expect_equal(own.grad(), times(numbers(y.shape(), 1, dtype), size_ * (size_ + 1) / 2));
      else
        EXPECT_FALSE(own.grad().defined());
    });
}

TEST_F(FunctionsBetweenRanks, GatherScattersGradients) {
  for (const int root : all_ranks())
    for_all_kinds_of_values([&](DType dtype, bool alike) {
      const Variable x = value_of(rank_, alike, dtype);
      const std::vector<Variable> all = F::gather(*comm_, x, root);
      if (rank_ == root) {
        ASSERT_EQ(all.size(), static_cast<std::size_t>(size_));
        std::vector<Tensor> weights;
        for (const int rank : all_ranks()) {
          const Variable& each = all[static_cast<std::size_t>(rank)];
          expect_equal(each.value(), value_of(rank, alike, dtype).value());
          weights.push_back(times(each.value(), rank + 2));
        }
        weighted_sum(all, weights).backward();
      } else {
        ASSERT_EQ(all.size(), 1U);
        all[0].backward();
      }
      expect_equal(x.grad(), times(x.value(), rank_ + 2));
    });
}

TEST_F(FunctionsBetweenRanks, ScatterGathersGradients) {
  for (const int root : all_ranks())
    for_all_kinds_of_values([&](DType dtype, bool alike) {
      std::vector<Variable> xs;
      if (rank_ == root)
        for (const int rank : all_ranks()) xs.push_back(value_of(rank, alike, dtype));
      const Variable y = F::scatter(*comm_, xs, root);
      expect_equal(y.value(), value_of(rank_, alike, dtype).value());
      weighted_sum({y}, {times(y.value(), rank_ + 2)}).backward();
      for (std::size_t i = 0; i < xs.size(); ++i)
        expect_equal(xs[i].grad(), times(xs[i].value(), static_cast<int>(i) + 2));
    });
}

TEST_F(FunctionsBetweenRanks, AllgatherSumsTheGradientsOfAllRanks) {
  for_all_kinds_of_values([&](DType dtype, bool alike) {
    const Variable x = value_of(rank_, alike, dtype);
    const std::vector<Variable> all = F::allgather(*comm_, x);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(size_));
    std::vector<Tensor> weights;
    for (const int rank : all_ranks()) {
      const Tensor& value = all[static_cast<std::size_t>(rank)].value();
      expect_equal(value, value_of(rank, alike, dtype).value());
      weights.push_back(times(numbers(value.shape(), rank, dtype), rank_ + 1));
    }
    weighted_sum(all, weights).backward();
    expect_equal(x.grad(), times(numbers(x.shape(), rank_, dtype), size_ * (size_ + 1) / 2));
  });
}

TEST_F(FunctionsBetweenRanks, AlltoallSendsGradientsBack) {
  for_all_kinds_of_values([&](DType dtype, bool alike) {
    // What rank a sends to rank b.
    const auto value = [&](int a, int b) {
      return numbers(alike ? Shape{2, 2} : Shape{a + 1, b + 1}, 10 * a + b, dtype);
    };
    std::vector<Variable> xs;
    for (const int rank : all_ranks()) xs.emplace_back(value(rank_, rank), true);
    const std::vector<Variable> ys = F::alltoall(*comm_, xs);
    std::vector<Tensor> weights;
    for (const int rank : all_ranks()) {
      expect_equal(ys[static_cast<std::size_t>(rank)].value(), value(rank, rank_));
      weights.push_back(times(value(rank, rank_), rank_ + 2));
    }
    weighted_sum(ys, weights).backward();
    for (const int rank : all_ranks())
      expect_equal(xs[static_cast<std::size_t>(rank)].grad(), times(value(rank_, rank), rank + 2));
  });
}

TEST_F(FunctionsBetweenRanks, AllreduceSumsInBothPasses) {
  const int sum = size_ * (size_ + 1) / 2;
  for (const DType dtype : float_types) {
    const Variable x(times(numbers({3, 2}, 1, dtype), rank_ + 1), true);
    const Variable y = F::allreduce(*comm_, x);
    expect_equal(y.value(), times(numbers({3, 2}, 1, dtype), sum));
    expect_equal(x.value(), times(numbers({3, 2}, 1, dtype), rank_ + 1));
    const Tensor weights = times(numbers({3, 2}, 2, dtype), rank_ + 1);
    weighted_sum({y}, {weights}).backward();
    expect_equal(x.grad(), times(numbers({3, 2}, 2, dtype), sum));
    expect_equal(weights, times(numbers({3, 2}, 2, dtype), rank_ + 1));
  }
}

TEST_F(FunctionsBetweenRanks, ReduceScatterGathersGradients) {
  const int sum = size_ * (size_ + 1) / 2;
  for (const DType dtype : float_types)
    for (const int items : {1, 6, 7}) {  // some ranks may get none
      const Shape shape{items, 2};
      const Variable x(times(numbers(shape, 1, dtype), rank_ + 1), true);
      const Range own = part_of(items, size_, rank_);
      const Variable y = F::reduce_scatter(*comm_, x);
      expect_equal(y.value(), times(numbers(shape, 1, dtype), sum).slice(own.begin, own.end));
      weighted_sum({y}, {numbers(shape, 3, dtype).slice(own.begin, own.end)}).backward();
      expect_equal(x.grad(), numbers(shape, 3, dtype));
    }
}

// Only some of the results are used, others have no gradient of their own.
TEST_F(FunctionsBetweenRanks, UnusedResultsGetZeroGradients) {
  const Variable x = value_of(rank_, false, DType::float32);
  const std::vector<Variable> all = F::allgather(*comm_, x);
  weighted_sum({all[0]}, {numbers(all[0].shape(), 1)}).backward();
  expect_equal(x.grad(), times(numbers(x.shape(), 1), rank_ == 0 ? size_ : 0));
}

TEST_F(FunctionsBetweenRanks, RetainedGraphUsesEachPassesGradients) {
  const Variable x(numbers({2}, 1), true);
  const std::vector<Variable> all = F::allgather(*comm_, x);
  const Tensor ones = Tensor::full({2}, 1);
  run_backward(weighted_sum({all.front()}, {ones}),
               {.seed = Tensor::full({}, 1), .keeps_graph = true});
  weighted_sum({all.back()}, {times(ones, 10)}).backward();
  expect_equal(x.grad(),
               times(ones, (rank_ == 0 ? size_ : 0) + (rank_ == size_ - 1 ? 10 * size_ : 0)));
}

// A rank's functions run in the reverse of their order, whatever the graph looks like.
TEST_F(FunctionsBetweenRanks, IndependentExchangesKeepTheirOrder) {
  const Variable x = value_of(rank_, true, DType::float32);
  const Variable a = F::allreduce(*comm_, x), b = F::bcast(*comm_, x, size_ - 1),
                 c = F::allgather(*comm_, x)[0];
  // Ranks use them in another order.
  std::vector<Variable> used = {a, b, c};
  std::rotate(used.begin(), used.begin() + rank_ % 3, used.end());
  const Tensor ones = Tensor::full(x.shape(), 1);
  weighted_sum(used, {ones, ones, ones}).backward();
  const int factor = size_ + (rank_ == size_ - 1 ? size_ : 0) + (rank_ == 0 ? size_ : 0);
  expect_equal(x.grad(), Tensor::full(x.shape(), factor));
}

// --- errors ---

TEST_F(FunctionsBetweenRanks, RejectInvalidUse) {
  using testing::expect_error;
  const Variable x = value_of(rank_, true, DType::float32);
  expect_error(ErrorKind::usage, {"send", "itself"}, [&] { F::send(x, *comm_, rank_); });
  expect_error(ErrorKind::usage, {"recv", "itself"}, [&] { F::recv(*comm_, rank_); });
  expect_error(ErrorKind::usage, {"send", fmt::format("{}", size_)},
               [&] { F::send(x, *comm_, size_); });
  expect_error(ErrorKind::usage, {"alltoall", "one tensor per rank"},
               [&] { F::alltoall(*comm_, std::vector<Variable>(1 + comm_->size(), x)); });
  expect_error(ErrorKind::usage, {"allreduce", "float", "int32"},
               [&] { F::allreduce(*comm_, Variable(Tensor::zeros({2}, DType::int32))); });
  expect_error(ErrorKind::usage, {"gather", "found none"}, [&] { F::gather(*comm_, Variable()); });
  expect_error(ErrorKind::usage, {"reduce_scatter", "scalar"},
               [&] { F::reduce_scatter(*comm_, Variable(Tensor::zeros({}))); });
}

}  // namespace
}  // namespace tasuki

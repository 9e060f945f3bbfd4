// PowerSGD: what arrives of matrices of low and of full rank in one step and in many, and that all
// ranks come to the same bits.
#include "optimizer/power_sgd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicators.hpp"
#include "compressed_network.hpp"

namespace tasuki {
namespace {

using testing::Network;
using testing::random_values;

constexpr std::int64_t rank_of_test = 2;

class PowerSgdTest : public ::testing::Test {
 protected:
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }

  // The part of the arena that belongs to a parameter.
  std::span<float> gradient(const std::string& path) const {
    for (const ParameterArena::Entry& entry : arena_.entries())
      if (entry.path == path) return ParameterArena::part(arena_.gradients(), entry).span<float>();
    ADD_FAILURE() << "no parameter " << path;
    return {};
  }

  void fill_with_random(std::uint64_t seed) const {
    RandomStream random(seed, static_cast<std::uint64_t>(rank()));
    for (const ParameterArena::Entry& entry : arena_.entries())
      for (float& value : gradient(entry.path)) value = random.normal();
  }

  std::vector<double> sums() const { return sum_of_all(arena_.gradients()); }
  std::vector<double> sum_of_all(const Tensor& values) const {
    const Tensor sum = values.to(DType::float64);
    comm_->allreduce(sum);
    const auto span = sum.span<double>();
    return {span.begin(), span.end()};
  }

  void expect_same_bits_everywhere() const {
    for (const Tensor& others : comm_->allgather(arena_.gradients()))
      EXPECT_EQ(std::memcmp(others.raw(), arena_.gradients().raw(), others.bytes()), 0);
  }

  std::unique_ptr<Communicator> comm_ = create_communicator("auto");
  Network model_;
  ParameterArena arena_{model_, comm_.get()};
  PowerSgd power_sgd_{arena_, *comm_, rank_of_test};
};

TEST_F(PowerSgdTest, CountsCompressedAndUncompressedElements) {
  const auto padded = [](std::int64_t count) { return (count + 15) / 16 * 16; };
  const std::int64_t matrices = padded(2 * 8) + padded(2 * 36) + padded(2 * 20) + padded(2 * 32);
  // Biases, small/W and the notices.
  const std::int64_t plain = padded(8) + padded(20) + padded(2) + padded(40) + 16;
  EXPECT_EQ(power_sgd_.count(), matrices + plain);
  EXPECT_EQ(power_sgd_.uncompressed_count(), padded(8 * 36) + padded(20 * 32) + plain);
}

TEST_F(PowerSgdTest, SumsLowRankGradientsExactly) {
  const std::vector<float> rows = random_values(20 * rank_of_test, 1),
                           columns = random_values(32 * rank_of_test, 2);
  for (int turn = 0; turn < 3; ++turn) {
    fill_with_random(1);
    const std::span<float> weights = gradient("wide/W");
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 32; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < rank_of_test; ++k)
          sum += (k + 1 + rank() + turn) *
                 static_cast<double>(rows[static_cast<std::size_t>(k * 20 + i)] *
                                     columns[static_cast<std::size_t>(k * 32 + j)]);
        weights[static_cast<std::size_t>(i * 32 + j)] = static_cast<float>(sum);
      }
    const std::vector<double> expected = sums();
    power_sgd_.exchange(0);
    const auto offset = static_cast<std::size_t>(weights.data() - arena_.gradients().data<float>());
    for (std::size_t i = 0; i < weights.size(); ++i)
      ASSERT_NEAR(weights[i], expected[offset + i], 1e-4 * size()) << "turn " << turn;
    expect_same_bits_everywhere();
  }
}

TEST_F(PowerSgdTest, SumsVectorsAndSmallMatricesExactly) {
  fill_with_random(4);
  arena_.notice().fill(1);
  arena_.examples_notice().fill(4095);
  const std::vector<double> expected = sums();
  power_sgd_.exchange(0);
  for (const char* path : {"conv/b", "wide/b", "small/W", "small/b"}) {
    const std::span<float> found = gradient(path);
    const auto offset = static_cast<std::size_t>(found.data() - arena_.gradients().data<float>());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[offset + i], 1e-5) << path;
  }
  EXPECT_EQ(arena_.notice().item(), size());
  EXPECT_EQ(arena_.examples_notice().data<float>()[1], 4095.0F * static_cast<float>(size()));
}

// Of a matrix of full rank a part arrives at once, and the rest in later steps.
TEST_F(PowerSgdTest, LosesNothingOverManySteps) {
  constexpr int steps = 60;
  std::vector<double> arrived(static_cast<std::size_t>(arena_.gradients().count()), 0), expected;
  double first_miss = 0;
  const auto miss = [&](int done) {
    double squares = 0, all = 0;
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      squares += (arrived[i] - done * expected[i]) * (arrived[i] - done * expected[i]);
      all += done * expected[i] * done * expected[i];
    }
    return std::sqrt(squares / all);
  };
  for (int step = 0; step < steps; ++step) {
    fill_with_random(9);
    expected = sums();
    power_sgd_.exchange(0);
    const auto found = arena_.gradients().span<float>();
    for (std::size_t i = 0; i < arrived.size(); ++i) arrived[i] += found[i];
    if (step == 0) first_miss = miss(1);
  }
  expect_same_bits_everywhere();
  EXPECT_GT(first_miss, 0.3);
  EXPECT_LT(miss(steps), first_miss / 4);
  const std::vector<double> kept = sum_of_all(power_sgd_.errors());
  for (std::size_t i = 0; i < arrived.size(); ++i)
    ASSERT_NEAR(arrived[i] + kept[i], steps * expected[i], 2e-3 * size()) << "element " << i;
}

TEST_F(PowerSgdTest, ResumesFromCarriedErrors) {
  fill_with_random(1);
  power_sgd_.exchange(0);
  PowerSgd other(arena_, *comm_, rank_of_test);
  other.errors().copy_from(power_sgd_.errors());
  other.directions().copy_from(power_sgd_.directions());
  fill_with_random(2);
  power_sgd_.exchange(0);
  const Tensor expected = arena_.gradients().clone();
  fill_with_random(2);
  other.exchange(0);
  EXPECT_EQ(std::memcmp(expected.raw(), arena_.gradients().raw(), expected.bytes()), 0);
}

// A step of numbers that are not finite spoils no other.
TEST_F(PowerSgdTest, KeepsOnlyFiniteErrors) {
  fill_with_random(1);
  power_sgd_.exchange(0);
  fill_with_random(2);
  if (rank() == 0) {
    gradient("wide/W")[3] = INFINITY;
    gradient("conv/W")[5] = NAN;
  }
  power_sgd_.exchange(0);
  const auto is_finite = [](float value) { return std::isfinite(value); };
  EXPECT_TRUE(std::ranges::all_of(power_sgd_.errors().span<float>(), is_finite));
  fill_with_random(3);
  power_sgd_.exchange(0);
  EXPECT_TRUE(std::ranges::all_of(arena_.gradients().span<float>(), is_finite));
}

// A communicator whose sums differ in the last bits on odd ranks, as MPI's may.
class Uneven : public Communicator {
 public:
  Uneven() : Communicator({.name = "uneven"}) {}

 protected:
  void combine(const Tensor& values, ReduceOp op) override {
    Communicator::combine(values, op);
    if (values.dtype() != DType::float32 || rank() % 2 == 0) return;
    for (float& value : values.span<float>()) value = std::nextafter(value, 1e30F);
  }
};

TEST(PowerSgdOverOtherSums, IsBitIdenticalOnAllRanks) {
  Uneven comm;
  Network model;
  ParameterArena arena{model, &comm};
  PowerSgd power_sgd{arena, comm, rank_of_test};
  for (int step = 0; step < 3; ++step) {
    // Of rank 1: only rounding decides about the second direction.
    for (const ParameterArena::Entry& entry : arena.entries()) {
      const auto gradient = ParameterArena::part(arena.gradients(), entry).span<float>();
      const std::size_t columns =
          gradient.size() / static_cast<std::size_t>(entry.parameter->shape()[0]);
      const std::vector<float> x = random_values(std::ssize(gradient), 5),
                               y = random_values(400, 6);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = x[i / columns] * y[i % columns] * static_cast<float>(1 + comm.rank() + step);
    }
    arena.notice().fill(1);
    power_sgd.exchange(0);
    EXPECT_EQ(arena.notice().item(), comm.size());
    for (const Tensor& others : comm.allgather(arena.gradients()))
      ASSERT_EQ(std::memcmp(others.raw(), arena.gradients().raw(), others.bytes()), 0)
          << "step " << step;
  }
}

}  // namespace
}  // namespace tasuki

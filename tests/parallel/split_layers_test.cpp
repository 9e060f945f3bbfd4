// Layers whose weights are divided among ranks compute, and learn, what those of one process do.
#include "parallel/split_layers.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "core/range.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/backend.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace {
int reductions = 0;
}  // namespace

// In place of MPI's, which it calls by MPI's other name.
extern "C" int MPI_Allreduce(const void* values, void* results, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  ++reductions;
  return PMPI_Allreduce(values, results, count, type, op, comm);
}

namespace tasuki {
namespace {

constexpr std::int64_t classes = 4, units = 10, channels = 9;  // no number of ranks divides all

Tensor random_values(const Shape& shape, std::uint64_t seed) {
  const Tensor made = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = random.normal();
  return made;
}

Tensor random_labels(std::int64_t count, std::uint64_t seed) {
  const Tensor made = Tensor::empty({count}, DType::int32);
  RandomStream random(seed);
  for (std::int32_t& label : made.span<std::int32_t>())
    label = static_cast<std::int32_t>(random.below(classes));
  return made;
}

// Two convolutions, and a pair of fully connected layers: divided over the ranks of `communicator`,
// or whole if it is null.
class Net : public Module {
 public:
  explicit Net(const std::shared_ptr<Communicator>& communicator) {
    const auto conv = [&](std::int64_t in, std::int64_t pad, bool bias) -> std::unique_ptr<Layer> {
      if (communicator)
        return std::make_unique<ParallelConv2d>(in, channels, 3, communicator, 1, pad, bias);
      return std::make_unique<Conv2d>(in, channels, 3, 1, pad, bias);
    };
    conv1_ = conv(3, 1, true);
    conv2_ = conv(channels, 0, false);
    const std::int64_t features = channels * 4 * 4;
    if (communicator) {
      fc1_ = std::make_unique<ColumnParallelLinear>(features, units, communicator, true);
      fc2_ = std::make_unique<RowParallelLinear>(units, classes, communicator);
    } else {
      fc1_ = std::make_unique<Linear>(features, units, true, initializers::lecun_normal(), true);
      fc2_ = std::make_unique<Linear>(units, classes);
    }
    add("conv1", *conv1_);
    add("bn", bn_);
    add("conv2", *conv2_);
    add("fc1", *fc1_);
    add("fc2", *fc2_);
    initialize(7);
    // Biases that are 0 would hide how often they are added.
    for (const auto& [path, parameter] : parameters())
      if (path == "fc2/b") parameter->value().copy_from(random_values(parameter->shape(), 5));
  }
  Variable scores(const Variable& x) {
    return (*fc2_)((*fc1_)(F::relu((*conv2_)(bn_((*conv1_)(x))))));
  }

 private:
  std::unique_ptr<Layer> conv1_, conv2_, fc1_, fc2_;
  BatchNorm bn_{channels, {.relu = true}};
};

class SplitLayers : public ::testing::Test {
 protected:
  // The part of a whole model's values that this rank has.
  Tensor part_of_whole(const std::string& path, const Tensor& whole) const {
    const int axis = path == "fc2/W" ? 1 : 0;
    if (path.starts_with("bn") || path == "fc2/b") return whole;
    const Range own = part_of(whole.shape()[axis], comm_->size(), comm_->rank());
    return backend(Device::cpu()).take(whole.plain(), axis, own.begin, own.end);
  }
  static void expect_near(const Tensor& found, const Tensor& expected, double tolerance,
                          const std::string& what) {
    ASSERT_EQ(found.shape(), expected.shape()) << what;
    const Tensor a = found.plain(), b = expected.plain();
    for (std::int64_t i = 0; i < a.count(); ++i)
      ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i],
                  tolerance * std::max(1.0F, std::abs(b.data<float>()[i])))
          << what << ", element " << i;
  }
  void expect_parts(const Net& divided, const Net& whole, double tolerance) {
    const auto parts = divided.parameters(), all = whole.parameters();
    ASSERT_EQ(parts.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(parts[i].path, all[i].path);
      expect_near(parts[i].parameter->value(),
                  part_of_whole(all[i].path, all[i].parameter->value()), tolerance, all[i].path);
    }
  }

  const std::shared_ptr<Communicator> comm_ = create_communicator("naive");
};

TEST_F(SplitLayers, MatchOneProcessInValuesAndGradients) {
  Net divided(comm_), whole(nullptr);
  expect_parts(divided, whole, 0);
  EXPECT_EQ(divided.communicates(), comm_->size() > 1);
  for (const std::int64_t items : {5, 5, 3, 5}) {
    const Tensor x = random_values({items, 3, 6, 6}, static_cast<std::uint64_t>(items));
    const Tensor t = random_labels(items, 2);
    const Variable in(x, true), all_in(x.clone(), true);
    divided.clear_grads();
    whole.clear_grads();
    const Variable y = divided.scores(in), all_y = whole.scores(all_in);
    expect_near(y.value(), all_y.value(), 1e-5, "scores");
    F::softmax_cross_entropy(y, t).backward();
    F::softmax_cross_entropy(all_y, t).backward();
    expect_near(in.grad(), all_in.grad(), 1e-5, "x");
    const auto parts = divided.parameters(), all = whole.parameters();
    for (std::size_t i = 0; i < all.size(); ++i)
      expect_near(parts[i].parameter->grad(), part_of_whole(all[i].path, all[i].parameter->grad()),
                  1e-5, all[i].path);
  }
}

TEST_F(SplitLayers, TrainLikeOneProcess) {
  Net divided(comm_), whole(nullptr);
  const auto own = create_optimizer("momentum_sgd"), one = create_optimizer("momentum_sgd");
  own->setup(divided);
  one->setup(whole);
  for (int step = 0; step < 20; ++step) {
    const std::int64_t items = step == 10 ? 3 : 8;
    const auto seed = static_cast<std::uint64_t>(step);
    const Tensor x = random_values({items, 3, 6, 6}, seed), t = random_labels(items, seed);
    const auto update = [&](Optimizer& optimizer, Net& net) {
      return optimizer
          .update([&] { return F::softmax_cross_entropy(net.scores(Variable(x)), t); }, items)
          .item();
    };
    EXPECT_NEAR(update(*own, divided), update(*one, whole), 1e-4);
  }
  expect_parts(divided, whole, 1e-4);
}

// Without those by which ranks agree, which the first pass has.
TEST_F(SplitLayers, LinearPairReducesOncePerPass) {
  ColumnParallelLinear first(6, units, comm_, true);
  RowParallelLinear second(units, classes, comm_);
  first.initialize(1);
  second.initialize(2);
  const Tensor t = random_labels(8, 1);
  int before = 0, forward = 0;
  Variable loss;
  for (int pass = 0; pass < 2; ++pass) {
    const Variable x(random_values({8, 6}, 1), true);
    before = reductions;
    loss = F::softmax_cross_entropy(second(first(x)), t);
    forward = reductions;
    loss.backward();
  }
  const int expected = comm_->size() > 1 ? 1 : 0;
  EXPECT_EQ(forward - before, expected);
  EXPECT_EQ(reductions - forward, expected);
}

TEST_F(SplitLayers, RejectMoreRanksThanUnits) {
  if (comm_->size() == 1) GTEST_SKIP() << "needs several ranks";
  testing::expect_error(ErrorKind::usage, {"1 channels", "cannot be divided"},
                        [&] { ParallelConv2d(3, 1, 3, comm_); });
}

}  // namespace
}  // namespace tasuki

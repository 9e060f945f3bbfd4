// Ranks that share a batch normalise, and learn, as one rank does that has the whole of it.
#include "parallel/multi_node_batch_norm.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "communicator/registry.hpp"
#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/loss.hpp"
#include "nn/recompute.hpp"
#include "optimizer/optimizer.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace {
int messages = 0;
}  // namespace

// In place of MPI's, which they call by MPI's other names.
extern "C" int MPI_Isend(const void* values, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  ++messages;
  return PMPI_Isend(values, count, type, peer, tag, comm, request);
}
extern "C" int MPI_Allreduce(const void* values, void* results, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  ++messages;
  return PMPI_Allreduce(values, results, count, type, op, comm);
}

namespace tasuki {
namespace {

constexpr std::int64_t classes = 4;

Tensor random_values(const Shape& shape, std::uint64_t seed, float mean = 0) {
  Tensor made = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& value : made.span<float>()) value = mean + random.normal();
  return made;
}

// Convolutions with ReLU in the normalisation and beside it, a branch, and N x C.
class Net : public Module {
 public:
  Net() {
    add("conv1", conv1_);
    add("bn1", bn1_);
    add("conv2", conv2_);
    add("bn2", bn2_);
    add("shortcut", shortcut_);
    add("bn3", bn3_);
    add("fc1", fc1_);
    add("bn4", bn4_);
    add("fc2", fc2_);
    initialize(3);
  }
  Variable loss(const Tensor& x, const Tensor& t) {
    const auto stem = [this](const Variable& images) {
      return F::average_pooling_2d(bn1_(conv1_(images)), 2);
    };
    // A block in a block.
    const auto residual = [this, stem](const Variable& images) {
      const Variable h = recomputes ? recompute(stem, images) : stem(images);
      return F::relu(F::add(bn2_(conv2_(h)), bn3_(shortcut_(h))));
    };
    const Variable sum = recomputes ? recompute(residual, Variable(x)) : residual(Variable(x));
    const Variable h = fc1_(F::flatten(F::global_average_pooling_2d(sum)));
    return F::softmax_cross_entropy(fc2_(F::relu(h + bn4_(h))), t);
  }

  bool recomputes = false;

 private:
  static BatchNorm::Settings with_relu() {
    BatchNorm::Settings settings;
    settings.relu = true;
    return settings;
  }
  Conv2d conv1_{3, 20, 3}, conv2_{20, 7, 3}, shortcut_{20, 7, 3};
  BatchNorm bn1_{20, with_relu()}, bn2_{7}, bn3_{7};
  Linear fc1_{7, 12}, fc2_{12, classes};
  BatchNorm bn4_{12};
};

struct Examples {
  Tensor x, t;

  static Examples random(std::int64_t count, std::uint64_t seed) {
    Examples made{random_values({count, 3, 12, 12}, seed, 2), Tensor::empty({count}, DType::int32)};
    RandomStream labels(seed, 1);
    for (std::int32_t& label : made.t.span<std::int32_t>())
      label = static_cast<std::int32_t>(labels.below(classes));
    return made;
  }
  Examples slice(std::int64_t begin, std::int64_t end) const {
    return {x.slice(begin, end), t.slice(begin, end)};
  }
};

void expect_near(const Tensor& found, const Tensor& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Tensor a = found.plain(), b = expected.plain();
  for (std::int64_t i = 0; i < a.count(); ++i)
    ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i],
                tolerance * std::max(1.0F, std::abs(b.data<float>()[i])))
        << what << ", element " << i;
}

class MultiNodeBatchNormTest : public ::testing::Test {
 protected:
  // This rank's part of a batch of which rank k has (k + 1) mod `period` shares.
  Range share_of(std::int64_t batch, std::int64_t period) const {
    const auto weight = [&](std::int64_t rank) { return (rank + 1) % period; };
    std::int64_t before = 0, all = 0;
    for (std::int64_t rank = 0; rank < size_; ++rank) {
      if (rank < rank_) before += weight(rank);
      all += weight(rank);
    }
    if (all == 0) return rank_ == 0 ? Range{0, batch} : Range{batch, batch};
    return {batch * before / all, batch * (before + weight(rank_)) / all};
  }

  const std::unique_ptr<Communicator> communicator_ = create_communicator("naive");
  const int rank_ = communicator_->rank(), size_ = communicator_->size();
};

TEST_F(MultiNodeBatchNormTest, MatchesTheWholeBatchInBothPasses) {
  const std::shared_ptr<Communicator> own = communicator_->split(0, rank_);
  for (const bool relu : {false, true})
    for (const Shape& shape : {Shape{24, 5, 6, 7}, Shape{24, 18}}) {
      BatchNorm::Settings settings;
      settings.relu = relu;
      MultiNodeBatchNorm many(shape[1], own, settings);
      BatchNorm one(shape[1], settings);
      for (Module* layer : {static_cast<Module*>(&many), static_cast<Module*>(&one)})
        for (const auto& [path, parameter] : layer->parameters())
          parameter->value().copy_from(random_values({shape[1]}, path == "gamma" ? 5 : 6, 0.5));
      const Tensor x = random_values(shape, 1, 2), up = random_values(shape, 2);
      // Of the sum of y times `up`; its gradient is `up`.
      const auto run = [&](BatchNorm& layer, const Tensor& in, const Tensor& weights) {
        Parameter input("x", in.clone());
        const Variable y = layer(input);
        const std::int64_t count = in.count();
        layer.clear_grads();
        input.clear_grad();
        class Weighted final : public Function {
         public:
          explicit Weighted(Tensor weights) : weights_(std::move(weights)) {}
          const char* name() const override { return "weighted"; }
          void backward(const Tensor&, Gradients& gradients) override {
            gradients.add(0, weights_);
          }

         private:
          Tensor weights_;
        };
        const Variable sum = Function::record(Tensor::zeros({}), {y},
                                              [&] { return std::make_unique<Weighted>(weights); });
        sum.backward(1);
        EXPECT_EQ(y.value().count(), count);
        return std::pair(y.value().plain(), input.grad().clone());
      };
      for (const std::int64_t period : {2, 3, 5}) {
        const auto [begin, end] = share_of(shape[0], period);
        const auto [y, dx] = run(many, x.slice(begin, end), up.slice(begin, end));
        const auto [all_y, all_dx] = run(one, x, up);
        expect_near(y, all_y.slice(begin, end), 1e-5, "y");
        expect_near(dx, all_dx.slice(begin, end), 1e-5, "dx");
        for (std::size_t i = 0; i < 2; ++i) {
          const Tensor sum = many.parameters()[i].parameter->grad().clone();
          communicator_->allreduce(sum);
          expect_near(sum, one.parameters()[i].parameter->grad(), 1e-5, many.parameters()[i].path);
        }
        for (std::size_t i = 0; i < 2; ++i)
          expect_near(*many.buffers()[i].tensor, *one.buffers()[i].tensor, 1e-5,
                      many.buffers()[i].path);
      }
    }
}

// Sums of squares in float32 would lose the variance.
TEST_F(MultiNodeBatchNormTest, KeepsVarianceForLargeMeans) {
  constexpr std::int64_t rows = 60;
  const Tensor x = random_values({rows, 1}, 4, 3000);
  double mean = 0, squares = 0;
  for (const float value : x.span<float>()) mean += value / double{rows};
  for (const float value : x.span<float>()) squares += (value - mean) * (value - mean);
  MultiNodeBatchNorm layer(1, communicator_->split(0, rank_), {.decay = 0});
  const auto [begin, end] = share_of(rows, 4);
  layer(Variable(x.slice(begin, end)));
  const auto buffers = layer.buffers();
  EXPECT_NEAR(buffers[0].tensor->item(), mean, 1e-3);
  EXPECT_NEAR(buffers[1].tensor->item(), squares / (rows - 1), 1e-3);
}

// So that what diverged shows in all of the statistics.
TEST_F(MultiNodeBatchNormTest, PropagatesNaN) {
  const Tensor x = random_values({6, 2}, 4);
  x.data<float>()[1] = std::nanf("");
  MultiNodeBatchNorm layer(2, communicator_->split(0, rank_));
  layer(Variable(x));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto averages = layer.buffers()[i].tensor->span<float>();
    EXPECT_TRUE(std::isfinite(averages[0])) << layer.buffers()[i].path;
    EXPECT_TRUE(std::isnan(averages[1])) << layer.buffers()[i].path;
  }
}

// Uneven shares, batches of fewer examples than ranks, and a rank that never has any.
TEST_F(MultiNodeBatchNormTest, TrainsLikeOneRank) {
  for (const ExchangeMode mode : {ExchangeMode::whole, ExchangeMode::overlapped,
                                  ExchangeMode::slices, ExchangeMode::thread}) {
    Net shared, alone;
    EXPECT_FALSE(shared.communicates());
    EXPECT_EQ(convert_to_multi_node_batch_norm(shared, *communicator_), 4U);
    EXPECT_EQ(shared.communicates(), size_ > 1);
    const auto many = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *communicator_);
    many->set_exchange({.mode = mode, .range_bytes = 256});
    const auto one = create_optimizer("momentum_sgd");
    many->setup(shared);
    one->setup(alone);
    for (const std::int64_t batch : {17, 3, 16, 2, 17, 1}) {
      const Examples all = Examples::random(batch, static_cast<std::uint64_t>(one->t()));
      const auto [begin, end] = share_of(batch, 3);  // the second of every three has twice as many,
      const Examples own = all.slice(begin, end);    // the third none
      many->update([&] { return shared.loss(own.x, own.t); }, end - begin);
      one->update([&] { return alone.loss(all.x, all.t); }, batch);
      for (std::size_t i = 0; i < alone.parameters().size(); ++i)
        expect_near(shared.parameters()[i].parameter->value(),
                    alone.parameters()[i].parameter->value(), 1e-5, alone.parameters()[i].path);
      for (std::size_t i = 0; i < alone.buffers().size(); ++i)
        if (alone.buffers()[i].tensor->dtype() == DType::float32)
          expect_near(*shared.buffers()[i].tensor, *alone.buffers()[i].tensor, 1e-5,
                      alone.buffers()[i].path);
    }
    // No rank has an example: nothing changes, and no number becomes NaN.
    const Tensor before = many->arena().values().clone();
    const Tensor statistics = shared.buffers()[0].tensor->clone();
    const Examples none = Examples::random(0, 1);
    many->update([&] { return shared.loss(none.x, none.t); }, 0);
    expect_near(many->arena().values(), before, 0, "weights");
    expect_near(*shared.buffers()[0].tensor, statistics, 0, "running statistics");
    // Ranks have the same bits.
    for (const Tensor& other : communicator_->allgather(*shared.buffers()[0].tensor))
      EXPECT_TRUE(std::ranges::equal(other.span<float>(), statistics.span<float>()));
  }
}

// As where all labels of a batch are ignored: examples that no rank learns from.
TEST_F(MultiNodeBatchNormTest, KeepsRunningAveragesWhenNothingCounts) {
  Net net;
  convert_to_multi_node_batch_norm(net, *communicator_);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
  optimizer->setup(net);
  const Examples own = Examples::random(4, static_cast<std::uint64_t>(rank_));
  int passes = 0;
  const auto loss = [&] {
    ++passes;
    return net.loss(own.x, own.t);
  };
  const auto averages = [&] { return net.buffers()[0].tensor->clone(); };
  const auto expect_moved = [&](const Tensor& before) {
    EXPECT_FALSE(std::ranges::equal(averages().span<float>(), before.span<float>()));
  };
  const Tensor initial = averages();
  optimizer->update(loss, 4);
  expect_moved(initial);
  const Tensor after_one = averages(), weights = optimizer->arena().values().clone();
  EXPECT_FALSE(optimizer->update(loss, 0).defined());
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(optimizer->t(), 1);
  expect_near(averages(), after_one, 0, "running averages");
  expect_near(optimizer->arena().values(), weights, 0, "weights");

  // The same for the second of two batches that make one step.
  {
    StepScope step;
    optimizer->backward(optimizer->forward(loss, 4), 4);
    expect_moved(after_one);
    const Tensor after_batch = averages();
    const Variable none = optimizer->forward(loss, 0);
    EXPECT_FALSE(none.defined());
    optimizer->update(optimizer->backward_and_exchange(none, 0));
    step.succeeded();
    expect_near(averages(), after_batch, 0, "running averages");
  }
  EXPECT_EQ(passes, 2);
  EXPECT_EQ(optimizer->t(), 2);

  // All ranks run a batch of which one rank has an example that counts.
  const Tensor after_two = averages();
  optimizer->update(loss, rank_ == 0 ? 1 : 0);
  EXPECT_EQ(passes, 3);
  expect_moved(after_two);
}

// Where the others would wait for its statistics.
TEST_F(MultiNodeBatchNormTest, NamesRankWhoseModelChanged) {
  if (size_ == 1) GTEST_SKIP() << "one rank has no other to differ from";
  struct Growing : Net {
    using Module::add;
  } net;
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
  optimizer->setup(net);
  convert_to_multi_node_batch_norm(net, *communicator_);
  const Examples own = Examples::random(4, static_cast<std::uint64_t>(rank_));
  const auto step = [&] { optimizer->update([&] { return net.loss(own.x, own.t); }, 4); };
  step();
  step();
  Linear more(2, 2);
  more.initialize(1);
  if (rank_ == size_ - 1) net.add("more", more);
  testing::expect_error(ErrorKind::disagreement, {"must train the same model"}, step);
}

// In shared memory there are none. One sum that is sent between two nodes is one message of a rank.
TEST_F(MultiNodeBatchNormTest, SendsTwoMessagesPerStep) {
  if (size_ == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const char* kind : {"naive", "flat", "hierarchical", "auto"}) {
    const auto comm = create_communicator(kind);
    const bool by_mpi = std::string(kind) == "naive" || std::string(kind) == "flat";
    Net net;
    constexpr int layers = 4;
    ASSERT_EQ(convert_to_multi_node_batch_norm(net, *comm), std::size_t{layers});
    const Examples own = Examples::random(4 + rank_, 1);
    for (int step = 0; step < 6; ++step) {
      net.recomputes = step > 3;
      messages = 0;
      net.clear_grads();
      net.loss(own.x, own.t).backward(1);
      if (step == 0) continue;
      EXPECT_EQ(messages, by_mpi || comm->inter_size() > 1 ? 2 * layers : 0) << kind;
    }
  }
}

// Blocks that are recomputed keep the statistics of all ranks.
TEST_F(MultiNodeBatchNormTest, HasTheSameBitsIfRecomputed) {
  const auto gradients = [&](bool recomputes) {
    Net net;
    net.recomputes = recomputes;
    convert_to_multi_node_batch_norm(net, *communicator_);
    const Examples own = Examples::random(4 + rank_, 1);
    net.clear_grads();
    for (int pass = 0; pass < 2; ++pass) net.loss(own.x, own.t).backward(1);
    std::vector<float> all;
    for (const auto& [path, parameter] : net.parameters())
      all.insert(all.end(), parameter->grad().span<float>().begin(),
                 parameter->grad().span<float>().end());
    for (const auto& [path, buffer] : net.buffers()) {
      const Tensor values = buffer->to(DType::float32);
      all.insert(all.end(), values.span<float>().begin(), values.span<float>().end());
    }
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

// Although the same number of channels was agreed on for another layer.
TEST_F(MultiNodeBatchNormTest, NamesDifferingLayerInItsFirstStep) {
  if (size_ == 1) GTEST_SKIP() << "one rank has no other to differ from";
  const std::shared_ptr<Communicator> own = communicator_->split(0, rank_);
  MultiNodeBatchNorm first(4, own), second(rank_ == size_ - 1 ? 5 : 4, own);
  const auto run = [](MultiNodeBatchNorm& layer, std::int64_t channels) {
    layer(Variable(random_values({6, channels}, 1)));
  };
  run(first, 4);
  testing::expect_error(ErrorKind::disagreement, {"float64 9", "float64 11", "must agree"},
                        [&] { run(second, rank_ == size_ - 1 ? 5 : 4); });
}

TEST_F(MultiNodeBatchNormTest, ConversionKeepsPathsAndSilentEvaluation) {
  Net converted, plain;
  convert_to_multi_node_batch_norm(converted, *communicator_);
  ASSERT_EQ(converted.parameters().size(), plain.parameters().size());
  for (std::size_t i = 0; i < plain.parameters().size(); ++i)
    EXPECT_EQ(converted.parameters()[i].path, plain.parameters()[i].path);
  for (std::size_t i = 0; i < plain.buffers().size(); ++i)
    EXPECT_EQ(converted.buffers()[i].path, plain.buffers()[i].path);
  // One rank alone evaluates: with a message it would wait for the others.
  if (rank_ == size_ - 1) {
    const TrainingMode evaluation(false);
    const Examples some = Examples::random(3, 7);
    EXPECT_EQ(converted.loss(some.x, some.t).value().item(),
              plain.loss(some.x, some.t).value().item());
  }
  Linear none(2, 2);
  EXPECT_EQ(convert_to_multi_node_batch_norm(none, *communicator_), 0U);
}

}  // namespace
}  // namespace tasuki

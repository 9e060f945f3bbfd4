// Local steps against the same training computed in one process, with an optimizer and a model for
// each group, and outer steps in double.
#include "optimizer/local_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "communicators.hpp"
#include "core/philox.hpp"
#include "core/stop_request.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t inputs = 12, hidden = 33, classes = 5;

// With batch normalisation where a group is one rank: ranks of a group normalise by themselves.
class Net : public Sequential {
 public:
  explicit Net(bool normalises) {
    append("l1", std::make_unique<Linear>(inputs, hidden));
    if (normalises) append("norm", std::make_unique<BatchNorm>(hidden));
    append(functions::relu);
    append("l2", std::make_unique<Linear>(hidden, classes));
    initialize(1);
  }
};

struct Examples {
  Tensor x, t;
};

Variable loss_of(Net& net, const Examples& examples) {
  return functions::softmax_cross_entropy(net(Variable(examples.x)), examples.t);
}

// The examples of a group in a step; groups have differently many.
std::int64_t examples_of(int group, int step) {
  return 6 + 4 * group + step % 2;
}

Examples batch_of(int group, int step) {
  const std::int64_t count = examples_of(group, step);
  Examples made{Tensor::empty({count, inputs}), Tensor::empty({count}, DType::int32)};
  RandomStream random(3, static_cast<std::uint64_t>(100 * step + group));
  for (float& value : made.x.span<float>()) value = random.normal();
  for (std::int32_t& label : made.t.span<std::int32_t>())
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes)));
  return made;
}

// Weights, then running statistics.
std::vector<std::span<float>> arrays_of(const Net& model) {
  std::vector<std::span<float>> arrays;
  for (const auto& [path, parameter] : model.parameters())
    arrays.push_back(parameter->value().span<float>());
  for (const auto& [path, buffer] : model.buffers())
    if (buffer->dtype() == DType::float32) arrays.push_back(buffer->span<float>());
  return arrays;
}

std::vector<double> values_of(const Net& model) {
  std::vector<double> values;
  for (const std::span<float> array : arrays_of(model))
    values.insert(values.end(), array.begin(), array.end());
  return values;
}

void set_values(const Net& model, const std::vector<double>& values) {
  auto from = values.begin();
  for (const std::span<float> array : arrays_of(model))
    for (float& value : array) value = static_cast<float>(*from++);
}

// All groups in this process, as local SGD and DiLoCo are described.
class Reference {
 public:
  Reference(int groups, bool normalises, const LocalStepSettings& settings) : settings_(settings) {
    for (int i = 0; i < groups; ++i) {
      models_.push_back(std::make_unique<Net>(normalises));
      optimizers_.push_back(create_optimizer("momentum_sgd"));
      optimizers_.back()->setup(*models_.back());
    }
    outer_ = values_of(*models_.front());
    for (const auto& [path, parameter] : models_.front()->parameters())
      weights_ += static_cast<std::size_t>(parameter->value().count());
    momentum_.assign(outer_.size(), 0);
    examples_.assign(models_.size(), 0);
  }

  void train(int steps) {
    for (int step = 1; step <= steps; ++step) {
      for (std::size_t i = 0; i < models_.size(); ++i) {
        const Examples batch = batch_of(static_cast<int>(i), step);
        optimizers_[i]->update([&] { return loss_of(*models_[i], batch); }, batch.t.count());
        examples_[i] += static_cast<double>(batch.t.count());
      }
      const bool warms_up = step <= settings_.warmup;
      if (!warms_up && (step - settings_.warmup) % settings_.every != 0) continue;
      if (warms_up || !settings_.overlap) {
        finish();
        begin(warms_up);
        finish();
      } else {
        finish();
        begin(false);
      }
    }
  }
  // What all groups have after a synchronisation.
  std::vector<double> synchronised() {
    finish();
    begin(false);
    finish();
    for (const auto& model : models_) set_values(*model, outer_);
    return outer_;
  }
  std::vector<double> of_group(int group) const {
    return values_of(*models_[static_cast<std::size_t>(group)]);
  }

 private:
  void begin(bool takes_mean) {
    double all = 0;
    for (const double each : examples_) all += each;
    if (all == 0) return;
    mean_.assign(outer_.size(), 0);
    sent_.clear();
    for (std::size_t i = 0; i < models_.size(); ++i) {
      std::vector<double>& own = sent_.emplace_back(values_of(*models_[i]));
      for (std::size_t j = 0; j < own.size(); ++j) {
        own[j] -= outer_[j];
        mean_[j] += examples_[i] / all * own[j];
      }
    }
    std::ranges::fill(examples_, 0);
    takes_mean_ = takes_mean || settings_.outer == OuterOptimizer::mean;
  }
  void finish() {
    if (sent_.empty()) return;
    for (std::size_t j = 0; j < outer_.size(); ++j) {
      double change = mean_[j];
      if (!takes_mean_ && j < weights_) {
        momentum_[j] = settings_.momentum * momentum_[j] - mean_[j];
        change = -settings_.lr * (-mean_[j] + settings_.momentum * momentum_[j]);
      }
      outer_[j] += change;
      mean_[j] = change;
    }
    for (std::size_t i = 0; i < models_.size(); ++i) {
      std::vector<double> own = values_of(*models_[i]);
      for (std::size_t j = 0; j < own.size(); ++j) own[j] += mean_[j] - sent_[i][j];
      set_values(*models_[i], own);
    }
    sent_.clear();
  }

  LocalStepSettings settings_;
  std::vector<std::unique_ptr<Net>> models_;
  std::size_t weights_ = 0;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<double> outer_, momentum_, mean_, examples_;
  std::vector<std::vector<double>> sent_;
  bool takes_mean_ = false;
};

class LocalTraining : public testing::WithCommunicator {
 protected:
  // Two groups, of one rank more if their number is odd.
  int group() const { return rank() * groups() / size(); }
  int groups() const { return std::min(size(), 2); }

  void train(LocalSteps& local, Optimizer& optimizer, Net& model, int steps) const {
    for (int step = 1; step <= steps; ++step) {
      const Examples batch = batch_of(group(), step);
      const Range own = part_of(batch.t.count(), local.group().size(), local.group().rank());
      const Examples part{batch.x.slice(own.begin, own.end), batch.t.slice(own.begin, own.end)};
      optimizer.update([&] { return loss_of(model, part); }, own.size());
      local.end_step(own.size());
    }
  }
};

TEST_P(LocalTraining, EqualsGroupsInOneProcess) {
  set_cpu_threads(1);
  for (const LocalStepSettings& settings :
       {LocalStepSettings{.every = 1}, LocalStepSettings{.every = 3},
        LocalStepSettings{.every = 3, .warmup = 2},
        LocalStepSettings{.every = 2, .outer = OuterOptimizer::nesterov},
        LocalStepSettings{.every = 3, .overlap = true},
        LocalStepSettings{.every = 2,
        .warmup = 1,
        .outer = OuterOptimizer::nesterov,
        .lr = 0.5,
        .momentum = 0.8,
        .overlap = true}}) {
    SCOPED_TRACE(::testing::Message()
                 << settings.every << ' ' << settings.warmup << ' ' << settings.overlap);
    const bool normalises = size() <= 2;
    Net model(normalises);
    // Ranks begin with other weights, which must not matter.
    if (rank() > 0)
      for (const auto& [path, parameter] : model.parameters()) parameter->value().fill(0.5);
    LocalSteps local(*communicator_, settings, group());
    EXPECT_EQ(local.groups(), groups());
    EXPECT_EQ(local.own_group(), group());
    const auto optimizer =
        create_multi_node_optimizer(create_optimizer("momentum_sgd"), local.group());
    optimizer->weights().share(settings.overlap);
    optimizer->setup(model);
    local.follow({optimizer.get()});
    Reference reference(groups(), normalises, settings);
    const auto expect_near = [&](const std::vector<double>& expected) {
      const std::vector<double> found = values_of(model);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
    };
    train(local, *optimizer, model, 8);
    reference.train(8);
    expect_near(reference.of_group(group()));
    local.synchronise();
    EXPECT_TRUE(local.is_synchronised());
    expect_near(reference.synchronised());
  }
}

// Rounded weights follow; ranks learn of requests to stop when they synchronise.
TEST_P(LocalTraining, TellsAllRanksAtSynchronisations) {
  const StoppableScope scope;
  LocalSteps local(*communicator_, {.every = 3}, group());
  Net model(false);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), local.group());
  optimizer->compute_in(DType::bfloat16);
  optimizer->setup(model);
  local.follow({optimizer.get()});
  if (rank() == size() - 1) request_stop();
  train(local, *optimizer, model, 2);
  EXPECT_FALSE(local.asked_to_stop());
  EXPECT_FALSE(local.is_synchronised());
  train(local, *optimizer, model, 1);
  EXPECT_TRUE(local.asked_to_stop());
  EXPECT_TRUE(local.is_synchronised());
  EXPECT_EQ(local.steps(), 3);
  const Tensor rounded = optimizer->arena().values().to(DType::bfloat16);
  EXPECT_EQ(std::memcmp(optimizer->arena().rounded().raw(), rounded.raw(), rounded.bytes()), 0);
  // The same values everywhere, and none that is not finite.
  const std::vector<double> own = values_of(model);
  const Tensor all = Tensor::empty({static_cast<std::int64_t>(own.size())}, DType::float64);
  std::ranges::copy(own, all.data<double>());
  communicator_->allreduce(all, ReduceOp::max);
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(all.data<double>()[i], own[i], 1e-6);
}

// A group without examples has no weight in the mean; without any, nothing changes.
TEST_P(LocalTraining, CountsGroupsByTheirExamples) {
  LocalSteps local(*communicator_, {.every = 1}, group());
  Net model(size() <= 2);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), local.group());
  optimizer->setup(model);
  local.follow({optimizer.get()});
  for (const bool has_any : {true, false}) {
    for (const auto& [path, parameter] : model.parameters()) {
      parameter->value().fill(group() == 0 ? 1 : 3);
      parameter->value_changed();
    }
    local.end_step(has_any && group() == 0 ? 4 : 0);
    for (const auto& [path, parameter] : model.parameters())
      for (const float value : parameter->value().span<float>())
        ASSERT_NEAR(value, 1, 1e-6) << path;
  }
}

// Statistics of each rank, by its examples; counters become the greatest.
TEST_P(LocalTraining, AveragesStatisticsOfAllRanks) {
  LocalSteps local(*communicator_, {.every = 1}, group());
  Net model(true);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), local.group());
  optimizer->setup(model);
  local.follow({optimizer.get()});
  double sum = 0, examples = 0;
  for (int other = 0; other < size(); ++other) {
    sum += static_cast<double>(other + 1) * (other + 2);
    examples += other + 1;
  }
  for (const auto& [path, buffer] : model.buffers()) buffer->fill(rank() + 2);
  local.end_step(rank() + 1);
  for (const auto& [path, buffer] : model.buffers())
    if (buffer->dtype() == DType::float32) {
      for (const float value : buffer->span<float>()) ASSERT_NEAR(value, sum / examples, 1e-5);
    } else {
      for (const std::int64_t value : buffer->span<std::int64_t>()) ASSERT_EQ(value, size() + 1);
    }
}

TEST_P(LocalTraining, RefusesOptimizers) {
  LocalSteps local(*communicator_, {.every = 2}, group());
  const auto refusal_of = [&](const std::function<void(Optimizer&)>& change) {
    Net model(false);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), local.group());
    optimizer->setup(model);
    change(*optimizer);
    return testing::error_of([&] { local.follow({optimizer.get()}); });
  };
  EXPECT_NE(refusal_of([](Optimizer& optimizer) {
              optimizer.guard().skip_non_finite();
            }).find("not finite"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Optimizer& optimizer) {
              optimizer.set_exchange({.mode = ExchangeMode::double_buffered});
            }).find("a step late"),
            std::string::npos);
  if (groups() == 1) return;
  EXPECT_NE(
      refusal_of([this](Optimizer& optimizer) { optimizer.set("lr", 1 + group()); }).find("lr"),
      std::string::npos);
}

TEST_P(LocalTraining, RefusesSettings) {
  for (const LocalStepSettings& settings :
       {LocalStepSettings{.every = 0}, LocalStepSettings{.warmup = -1}, LocalStepSettings{.lr = 0},
        LocalStepSettings{.momentum = 1}})
    testing::expect_error(ErrorKind::usage, {"expected"},
                          [&] { LocalSteps(*communicator_, settings); });
  if (size() > 1)
    testing::expect_error(ErrorKind::disagreement, {"local steps"},
                          [&] { LocalSteps(*communicator_, {.every = 1 + rank()}); });
}

INSTANTIATE_TEST_SUITE_P(Communicators, LocalTraining,
                         ::testing::ValuesIn(testing::summing_communicators()));

}  // namespace
}  // namespace tasuki

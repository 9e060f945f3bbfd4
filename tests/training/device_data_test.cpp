// Batches of all kinds on a device whose memory the host cannot touch, and evaluators of their
// results.
#include <gtest/gtest.h>

#include <algorithm>

#include "communicator/text_bytes.hpp"
#include "dataset/images/create_transform.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "device_training.hpp"
#include "tests/support/sequences.hpp"
#include "training/extensions/generic_evaluator.hpp"

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::guarded_device_counts;
using testing::on_device;
using testing::SmallRun;

TEST_F(DeviceTraining, BroadcastsToEachRanksDevice) {
  const auto comm_of_device = create_communicator("naive", {.device = Device::cuda(0)});
  for (int root = 0; root < comm->size(); ++root) {
    const Tensor found =
        comm_of_device->bcast(comm->rank() == root ? Tensor::full({2}, root) : Tensor(), root);
    EXPECT_EQ(found.device(), Device::cuda(0));
    EXPECT_EQ(found.slice(1, 2).item(), root);
  }
}

TEST_F(DeviceTraining, EvaluatorOfResultsMovesBatchesToItsModel) {
  const auto model = testing::small_model();
  model->to(Device::cuda(0));
  GenericEvaluator evaluator(
      create_serial_iterator(Share::whole(testing::synthetic(9)), 4),
      [](const Batch& batch) {
        EXPECT_EQ(batch["x"].device(), Device::cuda(0));
        return Bytes();
      },
      [](const std::vector<Bytes>& results, Observation& found) {
        found.set("batches", static_cast<double>(results.size()));
      },
      *model);
  EXPECT_EQ(evaluator.evaluate().mean("batches"), 3);
}

TEST_F(DeviceTraining, KeepsSharesThatFitOnTheDevice) {
  EXPECT_TRUE(fits_on_device(10, 20));
  EXPECT_FALSE(fits_on_device(11, 20));
  const auto batches = [](std::unique_ptr<Iterator> iterator) {
    std::vector<float> all;
    for (int i = 0; i < 30; ++i) {
      const Batch batch = iterator->next();
      const Tensor x = batch["x"].to(Device::cpu());
      all.insert(all.end(), x.span<float>().begin(), x.span<float>().end());
      const Tensor t = batch["t"].to(Device::cpu());
      all.insert(all.end(), t.span<std::int32_t>().begin(), t.span<std::int32_t>().end());
    }
    return all;
  };
  const auto shuffled = [&] {
    return create_shuffled_iterator(testing::share_of(testing::synthetic(97), comm.get()), 7, 3);
  };
  const auto expected = batches(shuffled());
  EXPECT_EQ(batches(create_device_iterator(shuffled(), Device::cpu())), expected);
  const auto before = guarded_device_counts();
  EXPECT_EQ(batches(create_device_iterator(shuffled(), Device::cuda(0))), expected);
  EXPECT_GT(guarded_device_counts().operations, before.operations);
  EXPECT_EQ(batches(std::make_unique<PrefetchIterator>(shuffled())), expected);
}

// Ragged ones are as long as on a CPU, whether they live there or are copied.
TEST_F(DeviceTraining, MovesFieldsOfAllKindsToTheDevice) {
  const auto shuffled = [&] {
    return create_shuffled_iterator(testing::share_of(testing::sequences(23, 2), comm.get()), 4, 3);
  };
  EXPECT_EQ(resident_bytes(*testing::sequences(23, 2)), 23U * (4 * 4 + 2 * 8 + 4));
  const auto model = testing::small_model();
  model->to(Device::cuda(0));
  for (const GraphMode graph : {GraphMode::off, GraphMode::on})
    for (const bool is_resident : {true, false}) {
      SCOPED_TRACE(fmt::format("resident {}, graph {}", is_resident, static_cast<int>(graph)));
      StepRunner runner(*model, {.graph = graph, .activations = DType::bfloat16});
      const auto cpu = shuffled();
      const std::unique_ptr<Iterator> iterator =
          is_resident ? create_device_iterator(shuffled(), Device::cuda(0))
                      : std::make_unique<PrefetchIterator>(shuffled());
      const auto before = guarded_device_counts();
      for (int i = 0; i < 40; ++i) {
        const Batch expected = cpu->next(), next = runner.read(*iterator);
        EXPECT_TRUE(std::ranges::equal(next.ids(), expected.ids()));
        const auto work = [&](const Batch& found, Observation& seen) {
          EXPECT_EQ(found["tokens"].device(), Device::cuda(0));
          EXPECT_EQ(found.lengths("tokens").device(), Device::cuda(0));
          EXPECT_EQ(found["y"].dtype(), DType::float32) << "a target";
          if (graph == GraphMode::off) testing::expect_sequences(found, 2);
          const Tensor& tokens = found["tokens"];
          const auto last = [](const Tensor& values) {
            return values.reshape({values.count()})
                .slice(values.count() - 1, values.count())
                .reshape({});
          };
          seen.add_sum("length", last(found.lengths("tokens")), 1);
          if (tokens.count() > 0) seen.add_sum("token", last(tokens), 1);
        };
        Observation seen;
        runner.run(next, seen, work, "");
        const Tensor &lengths = expected.lengths("tokens"), &tokens = expected["tokens"];
        const std::int64_t n = lengths.count(), m = tokens.count();
        EXPECT_EQ(seen.mean("length"), lengths.slice(n - 1, n).item());
        if (m > 0) {
          EXPECT_EQ(seen.mean("token"), tokens.reshape({m}).slice(m - 1, m).item());
        }
      }
      EXPECT_EQ(guarded_device_counts().replays > before.replays, graph == GraphMode::on);
    }
}

// Metrics that are not sums are computed where the model is, whatever the iterator's device.
TEST_F(DeviceTraining, RunsGenericEvaluatorsOnTheModelsDevice) {
  for (const bool is_resident : {true, false}) {
    for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
      const auto options = on_device(graph, is_resident);
      const SmallRun run(folder / "out", comm.get(), options);
      std::int64_t batches = 0;
      auto& evaluator = run.trainer->extend(
          std::make_unique<GenericEvaluator>(
              SmallRun::on_device(create_serial_iterator(
                                      testing::share_of(testing::synthetic(41, 1), comm.get()), 7),
                                  options),
              [&](const Batch& batch) {
                ++batches;
                EXPECT_EQ(batch["x"].device(), Device::cuda(0));
                EXPECT_FALSE(TrainingMode::is_training());
                const auto found = (*run.model)(Variable(batch["x"]), batch["t"]);
                EXPECT_FALSE(found.loss.requires_grad());
                return text_to_bytes(std::to_string(found.loss.value().item()));
              },
              [](const std::vector<Bytes>& results, Observation& found) {
                found.set("batches", static_cast<double>(results.size()));
              }),
          {.name = "again"});
      const auto before = guarded_device_counts();
      for (int pass = 0; pass < 2; ++pass) evaluator.run(*run.trainer);
      EXPECT_EQ(guarded_device_counts().recordings, before.recordings) << "results are the host's";
      EXPECT_GE(batches, 2 * 3);
      EXPECT_GE(*run.trainer->observation().mean("again/batches"), 6);
    }
  }
}

// Images that live on the device are augmented there, as on a CPU.
TEST_F(DeviceTraining, AugmentsImagesOnTheDevice) {
  constexpr std::int64_t count = 23;
  auto stored = std::make_shared<InMemoryDataset>(classification_header(count, Shape{3, 9, 10}, 4));
  std::vector<std::byte> pixels(270);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < pixels.size(); ++j)
      pixels[j] = static_cast<std::byte>((j * 31 + static_cast<std::size_t>(i) * 57) % 251);
    const auto label = static_cast<std::int32_t>(i % 4);
    const std::span<const std::byte> example[] = {pixels, std::as_bytes(std::span(&label, 1))};
    stored->set(i, i, example);
  }
  const auto shuffled = [&] {
    Share share = testing::share_of(stored, comm.get());
    share.dataset =
        transformed(share.dataset, create_transform(augmentation, stored->header().field("x"), 5));
    return create_shuffled_iterator(share, 4, 3);
  };
  const auto on_cpu = shuffled();
  const auto before = guarded_device_counts();
  const auto on_gpu = create_device_iterator(shuffled(), Device::cuda(0));
  for (int i = 0; i < 20; ++i) {
    const Batch expected = on_cpu->next(), found = on_gpu->next();
    EXPECT_TRUE(std::ranges::equal(found.ids(), expected.ids()));
    const Tensor x = found["x"].to(Device::cpu());
    EXPECT_TRUE(std::ranges::equal(x.span<float>(), expected["x"].span<float>()));
  }
  EXPECT_GT(guarded_device_counts().operations, before.operations + 40);
}

}  // namespace
}  // namespace tasuki

// ChainerMN's own acceptance tests: learn, save, resume, learn more.
#include <gtest/gtest.h>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/scatter.hpp"
#include "dataset/synthetic.hpp"
#include "models/mlp.hpp"
#include "small_run.hpp"
#include "tests/support/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::TemporaryFolder;

struct Mnist {
  Mnist(const std::filesystem::path& out, Communicator& comm, double epochs)
      : model(std::make_unique<MLP>(784, 100, 10)),
        optimizer(create_multi_node_optimizer(create_optimizer("adam"), comm)) {
    model.initialize(static_cast<std::uint64_t>(comm.rank()));  // rank 0's count
    optimizer->setup(model);
    SyntheticOptions data;
    data.example_shape = Shape{784};
    data.count = 2001;
    const SyntheticDataset train(data);
    data.split = 1;
    data.count = 501;
    const SyntheticDataset test(data);
    // As many updates on any number of ranks.
    const std::int64_t batch_size = 50 / comm.size();
    StandardUpdater::Settings settings;
    trainer = std::make_unique<Trainer>(
        std::make_unique<StandardUpdater>(
            create_shuffled_iterator(scatter_dataset(&train, comm), batch_size, 0), *optimizer,
            classification_loss(model), settings),
        stop_after(epochs), out);
    trainer->extend(create_multi_node_evaluator(
        std::make_unique<Evaluator>(
            create_serial_iterator(scatter_dataset(&test, comm), batch_size),
            classification_loss(model)),
        comm));
    log = &trainer->extend(std::make_unique<LogReport>());
    trainer->extend(std::make_unique<Snapshot>());
  }
  double accuracy() const {
    return log->entries().back().at("validation/main/accuracy").get<double>();
  }

  Classifier model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
  LogReport* log = nullptr;
};

TEST(EndToEnd, PerceptronLearnsSavesAndResumes) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  std::int64_t iteration = 0;
  {
    const Mnist first(folder / "out", *comm, 5);
    first.trainer->run();
    EXPECT_GT(first.accuracy(), 0.95);
    EXPECT_LT(first.log->entries().back().at("main/loss").get<double>(),
              first.log->entries().front().at("main/loss").get<double>());
    iteration = first.trainer->updater().iteration();
  }
  comm->barrier();
  const Mnist second(folder / "out", *comm, 8);
  resume(*newest_snapshot(folder / "out"), *second.trainer);
  EXPECT_EQ(second.trainer->updater().epoch(), 5);
  EXPECT_EQ(second.trainer->updater().iteration(), iteration);
  second.trainer->run();
  EXPECT_EQ(second.trainer->updater().epoch(), 8);
  EXPECT_GE(second.accuracy(), 0.95);
  EXPECT_EQ(second.log->entries().size(), 8U);
}

}  // namespace
}  // namespace tasuki

// Copies of the weights in the memory of devices, which are hashed on the host.
#include <gtest/gtest.h>

#include "device_training.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/check_replicas.hpp"

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::on_device;
using testing::SmallRun;

TEST_F(DeviceTraining, ComparesItsReplicas) {
  if (comm->size() == 1) GTEST_SKIP() << "of several ranks";
  for (const bool is_recorded : {false, true}) {
    for (const bool is_damaged : {false, true}) {
      const SmallRun run(folder / "out", comm.get(),
                         on_device(is_recorded ? graph_of(*comm) : GraphMode::off));
      run.trainer->extend(check_replicas(2));
      run.trainer->extend(make_extension("damage", [&](Trainer& training) {
        if (!is_damaged || training.updater().iteration() != 2 || comm->rank() != 0) return;
        run.optimizer->arena().values().slice(0, 1).fill(0.0625);
      }));
      const auto error = testing::caught([&] { run.trainer->run(); });
      EXPECT_EQ(error.has_value(), is_damaged);
      if (!error) continue;
      EXPECT_EQ(error->kind(), ErrorKind::disagreement);
      EXPECT_NE(std::string(error->what()).find("after iteration 4 (after iteration 2 all"),
                std::string::npos)
          << error->what();
      comm->barrier();
    }
  }
}

}  // namespace
}  // namespace tasuki

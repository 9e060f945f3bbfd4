// --hash-every with arrays in the memory of devices.
#include <gtest/gtest.h>

#include "core/file.hpp"
#include "device_training.hpp"
#include "training/extensions/hash_log.hpp"
#include "training/step_hashes.hpp"

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::on_device;
using testing::SmallRun;

TEST_F(DeviceTraining, HashesWhatItComputes) {
  const auto hashes_of = [&](const std::string& out, const SmallRun::Options& options) {
    const SmallRun run(folder / out, comm.get(), options);
    log_hashes(*run.trainer, {});
    run.trainer->run();
    comm->barrier();
    return read_file(folder / (out + "/hashes"));
  };
  const std::string eager = hashes_of("eager", on_device(GraphMode::off));
  EXPECT_EQ(hashes_of("recorded", on_device(graph_of(*comm))), eager);
  EXPECT_EQ(hashes_of("host", {}), eager);

  HashReader reader(folder / "eager/hashes");
  int lines = 0;
  for (; const auto step = reader.next(); ++lines) {
    EXPECT_TRUE(step->loss_hash);
    EXPECT_EQ(step->groups.size(), 4U);
  }
  EXPECT_GT(lines, 0);
  comm->barrier();
}

}  // namespace
}  // namespace tasuki

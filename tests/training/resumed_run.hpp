// What tests of resumed runs share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

namespace tasuki::testing {

class Resume : public ::testing::Test {
 protected:
  // A run of `options` that saves its state at the end, as rank 0's file "state".
  std::unique_ptr<SmallRun> saved_run(const SmallRun::Options& options) {
    auto run = std::make_unique<SmallRun>(folder / "first", comm.get(), options);
    run->trainer->run();
    save_snapshot(folder / "state", *run->trainer);
    return run;
  }
  std::string refusal(const SmallRun::Options& options) {
    SmallRun run(folder / "second", comm.get(), options);
    std::string message = error_of([&] { resume(folder / "state", *run.trainer); });
    const auto all = allgather_bytes(*comm, text_to_bytes(message));
    for (const Bytes& each : all) EXPECT_EQ(each, all[0]);
    return message;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

}  // namespace tasuki::testing

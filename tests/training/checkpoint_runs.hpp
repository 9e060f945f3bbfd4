// Runs that save checkpoints, for several tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/file.hpp"
#include "resumed_run.hpp"
#include "training/extensions/checkpoint.hpp"

namespace tasuki::testing {

class Checkpoints : public Resume {
 protected:
  std::unique_ptr<SmallRun> run_of(const std::string& out, const SmallRun::Options& options,
                                   Checkpoint::Settings settings = {}, double period = 3) {
    auto run = std::make_unique<SmallRun>(folder / out, comm.get(), options);
    run->trainer->extend(
        std::make_unique<Checkpoint>(std::move(settings), every(period, Unit::iteration)));
    return run;
  }
  std::filesystem::path checkpoint(const std::string& out, std::int64_t iteration) const {
    return folder / fmt::format("{}/checkpoints/iter_{}", out, iteration);
  }
  // The names in a run's folder of checkpoints, sorted; when all ranks are done with it.
  std::vector<std::string> names(const std::string& out) {
    comm->barrier();
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& each :
         std::filesystem::directory_iterator(folder / (out + "/checkpoints"), ignored))
      found.push_back(each.path().filename());
    std::ranges::sort(found);
    comm->barrier();
    return found;
  }
  std::string text_of(const std::string& file) {
    comm->barrier();
    std::string text = read_file(folder / file);
    return text.substr(0, text.find('\n'));
  }
};

}  // namespace tasuki::testing

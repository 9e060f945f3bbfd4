// What tests of train_mnist --resume share.
#pragma once

#include <map>

#include "saving/npz.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {

using Flags = std::vector<std::string>;

// Ten steps an epoch.
class ResumedJob : public TrainMnist {
 protected:
  // A log without measured times.
  static nlohmann::json without_times(nlohmann::json log) {
    for (auto& entry : log)
      std::erase_if(entry.get_ref<nlohmann::json::object_t&>(), [](const auto& value) {
        return value.first.find("time") != std::string::npos;
      });
    return log;
  }
  // A run of two epochs; its log.
  nlohmann::json train(const Flags& flags) {
    return log_of(1, "first", with({"-b", "48", "--epoch", "2"}, flags));
  }
  // From its snapshot to the end of the fourth, in place of another run that did.
  Finished go_on(const Flags& flags) {
    std::filesystem::remove_all(folder / "second");
    return run(1, "second", with({"-b", "48", "--epoch", "4", "--resume", snapshot}, flags));
  }
  // Makes the snapshot one that another program might have written.
  void take_flags_away() const {
    std::vector<NpzEntry> entries;
    {
      const NpzFile file(snapshot);
      for (const std::string& name : file.names())
        if (!name.starts_with("extensions/Flags/")) entries.push_back({name, file.read(name)});
    }
    write_npz(snapshot, entries);
  }
  // With these flags and the data alone, which may then be given otherwise.
  Finished dry_run(const std::map<std::string, std::string>& flags) {
    Flags words = {TRAIN_MNIST, "--dry-run", "--data", data};
    for (const auto& [flag, value] : flags) words.insert(words.end(), {flag, value});
    return run_program(words);
  }
  void expect_once(const Finished& job, const std::string& text) {
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.all(), text), 1) << text << "\n--- in ---\n" << job.all();
  }

  std::string snapshot = folder / "first/snapshot_iter_20";
};

}  // namespace tasuki::testing

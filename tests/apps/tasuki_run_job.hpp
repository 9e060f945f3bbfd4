// What the tests of tasuki-run share: an mpirun that is a script and does what a test says, and the
// log of incidents.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "communicator/mpi/open_mpi.hpp"
#include "core/file.hpp"
#include "tests/support/json.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training_job.hpp"

namespace tasuki::testing {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr bool is_orte = open_mpi_version < 5;  // else PRRTE

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Events {
 public:
  explicit Events(const fs::path& folder) {
    for (const std::string& line : lines_of(read_file(folder / "incidents.jsonl")))
      all_.push_back(json_from(line));
  }
  Words names() const {
    Words names;
    for (const auto& one : all_) names.push_back(one.at("event"));
    return names;
  }
  const nlohmann::json& operator[](std::size_t i) const { return all_.at(i); }

 private:
  std::vector<nlohmann::json> all_;
};

inline bool has_said(const fs::path& folder, const std::string& event) {
  return fs::exists(folder / "incidents.jsonl") &&
         count_of(read_file(folder / "incidents.jsonl"), '"' + event + '"') > 0;
}

// In a folder with bin/mpirun and bin/srun, which note their words in `calls` and run `plan`, a
// bash script that finds the number of the call in $n, takes a folder (`take FOLDER`) and saves
// something in `out` (`save ITERATION`); and with a program that knows --print-config.
class TasukiRun : public ::testing::Test {
 protected:
  TasukiRun() {
    const std::string launcher = "#!/bin/bash\ncd '" + folder.path().string() +
                                 "'\n"
                                 "echo \"${0##*/} $*\" >> calls\nn=$(wc -l < calls)\n"
                                 "take() { mkdir -p $1; echo \"{\\\"supervisor\\\": "
                                 "\\\"$TASUKI_SUPERVISOR\\\"}\" > $1/about.json; }\n"
                                 "save() { touch '" +
                                 out.string() +
                                 "'/snapshot_iter_$1; }\n"
                                 "source ./plan\n";
    for (const char* name : {"bin/mpirun", "bin/srun"}) script(name, launcher);
    script("train",
           "#!/bin/bash\nfor word; do case $word in\n"
           "  --print-config) asked=1 ;;\n"
           "  --wrong) echo 'error: unknown flag --wrong' >&2; exit 64 ;;\n"
           "  --crash) kill -SEGV $$ ;;\n"
           "  --help | --help=*) echo 'how to train'; exit ;;\n"
           "esac; done\n"
           "[ $asked ] || exit 1\n"
           "echo 'of my own: text'\n"
           "printf '%s\\n' '# train 1; read back with --config FILE' 'out = " +
               out.string() + "  # default' 'resume = none'\n");
    script("other", "#!/bin/bash\n");
  }
  void script(const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  Words words(const Words& flags, const std::string& program = "train") {
    return with(with({TASUKI_RUN, "-np", "2"}, flags), {folder / program});
  }
  Finished run(const std::string& plan, const Words& all,
               const std::function<void(pid_t)>& meanwhile = {}) {
    fs::remove(folder / "calls");
    std::ofstream(folder / "plan") << plan;
    auto changes = environment();
    changes["TMPDIR"] = folder / "tmp";
    return run_program(all, 30, changes, meanwhile);
  }
  // Sends these signals, one after the other, once there is a file `ready`.
  std::function<void(pid_t)> when_ready(std::vector<int> signals) {
    return [this, signals, next = 0u](pid_t program) mutable {
      if (next >= signals.size() || !fs::exists(folder / "ready")) return;
      kill(program, signals[next++]);
    };
  }
  // Whether there is such a file within 5 s.
  bool appears(const std::string& name) {
    const double end = shared_clock() + 5 * patience();
    while (!fs::exists(folder / name) && shared_clock() < end) usleep(20'000);
    return fs::exists(folder / name);
  }
  // In which tasuki-run finds these launchers.
  std::map<std::string, std::string> environment() {
    return {{"PATH", (folder / "bin").string() + ":" + std::getenv("PATH")},
            {"TASUKI_MPIEXEC", has_hydra() ? (folder / "bin/mpirun").string() : ""}};
  }
  std::vector<std::string> calls() { return lines_of(read("calls")); }
  std::string read(const std::string& name) {
    return fs::exists(folder / name) ? read_file(folder / name) : "";
  }

  TemporaryFolder folder;
  fs::path out = folder / "result";
  const std::string rule = std::string(76, '-');
};

}  // namespace tasuki::testing

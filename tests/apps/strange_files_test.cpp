// What is in the way: files that may not be read, pipes and links, also where train_mnist expects
// its own files.

#include <sys/stat.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/programs_of_nobody.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

namespace fs = std::filesystem;

class StrangeFiles : public TrainMnist {
 protected:
  // A short run, of one process; adds `flags`.
  Finished train(const std::vector<std::string>& flags, bool as_user = false) const {
    const std::vector<std::string> words =
        with({TRAIN_MNIST, "--data", data, "--unit", "32", "--threads", "1", "--quiet",
              "--max-iterations", "4"},
             flags);
    return run_program(as_user ? words_of_nobody(words) : words);
  }
  void expect_line(const Finished& job, ErrorKind kind, const std::string& line) const {
    EXPECT_FALSE(job.timed_out) << line;
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, line), 1) << line << "\n--- in ---\n" << job.all();
    EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
  }
  void make_pipe(const std::string& name) const {
    fs::remove(folder / name);
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  }
};

TEST_F(StrangeFiles, RejectsUnreadableFilesInOneLine) {
  const std::string out = folder / "result", snapshot = out + "/snapshot_iter_4";
  if (const std::string reason = why_nobody_cannot_run(TRAIN_MNIST); !reason.empty())
    GTEST_SKIP() << reason;
  give_to_nobody(folder.path());
  ASSERT_EQ(train({"--out", out, "--checkpoint-every", "2it"}, true).exit_code, 0);
  const std::string config = folder / "config.ini", images = data + "/train-images-idx3-ubyte";
  write_file(config, "epoch = 1\n");
  give_to_nobody(folder.path());
  struct Case {
    std::string forbidden;
    std::vector<std::string> flags;
    std::string named;
    ErrorKind kind;
  };
  const Case cases[] = {
      {data, {}, data, ErrorKind::missing},
      {images, {}, images, ErrorKind::missing},
      {config, {"--config", config}, config, ErrorKind::missing},
      {snapshot, {"--resume", snapshot, "--out", out}, snapshot, ErrorKind::missing},
      {snapshot, {"--init", snapshot, "--out", folder / "a"}, snapshot, ErrorKind::missing},
      {out, {"--resume", snapshot, "--out", folder / "b"}, snapshot, ErrorKind::missing},
      {out, {"--init", snapshot, "--out", folder / "c"}, snapshot, ErrorKind::missing},
      {out, {"--resume", out, "--out", folder / "d"}, out, ErrorKind::missing},
      {out + "/checkpoints", {"--resume", "auto", "--out", out}, out, ErrorKind::missing},
      {out, {"--out", out}, out, ErrorKind::cannot_write},
      {out, {"--out", out + "/below/it"}, out + "/below/it", ErrorKind::cannot_write},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(::testing::PrintToString(each.flags) + " without " + each.forbidden);
    const fs::perms before = fs::status(each.forbidden).permissions();
    fs::permissions(each.forbidden, fs::perms::none);
    const Finished job = train(each.flags, true);
    fs::permissions(each.forbidden, before);
    expect_line(job, each.kind, "Permission denied");
    EXPECT_EQ(count_of(job.err, each.named), 1) << job.err;
  }
}

TEST_F(StrangeFiles, RejectsPipesInPlaceOfFilesInOneLine) {
  const std::string out = folder / "result";
  ASSERT_EQ(train({"--out", out, "--checkpoint-every", "2it"}).exit_code, 0);
  for (const char* const name : {"latest", "abandoned", "best"}) {
    make_pipe(std::string("result/") + name);
    expect_line(
        train({"--resume", name == std::string("best") ? out + "/best" : "auto", "--out", out}),
        name == std::string("best") ? ErrorKind::missing : ErrorKind::data, out + "/" + name);
    fs::remove(folder / (std::string("result/") + name));
  }
  make_pipe("data/train-images-idx3-ubyte");
  expect_line(train({"--out", folder / "new"}), ErrorKind::missing,
              data + "/train-images-idx3-ubyte");
  expect_line(train({"--config", "/dev/zero"}), ErrorKind::data, "/dev/zero");
}

// Those that a user names are read.
TEST_F(StrangeFiles, ReadsSettingsThroughAPipe) {
  const Finished job = run_program({"bash", "-c", "\"$@\" --config <(echo 'max-iterations = 3')",
                                    "bash", TRAIN_MNIST, "--data", data, "--unit", "32",
                                    "--threads", "1", "--out", folder / "result"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_TRUE(fs::exists(folder / "result/snapshot_iter_3"));
}

// In a folder that somebody else has filled.
TEST_F(StrangeFiles, DoesNotWriteThroughLinks) {
  const fs::path theirs = folder / "theirs", out = folder / "result";
  const auto renew = [&](const std::string& name) {
    fs::remove_all(out);
    fs::create_directories(out);
    write_file(theirs, "keep this");
    fs::create_symlink(theirs, out / name);
  };
  for (const char* const name : {".lock", "checkpoints"}) {
    renew(name);
    expect_line(train({"--out", out, "--checkpoint-every", "2it"}), ErrorKind::cannot_write,
                (out / name).string());
    EXPECT_EQ(read_file(theirs), "keep this") << name;
  }
  renew("monitor.0.csv");
  const Finished job = train({"--out", out, "--monitor", "0.1"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(count_of(job.err, "monitor.0.csv: expected a regular file, found a link"), 1)
      << job.err;
  EXPECT_EQ(read_file(theirs), "keep this");
  for (const char* const name : {"log", "about.json", "step_times.json", "latest", "abandoned",
                                 "link.json", "snapshot_iter_4", "best"}) {
    renew(name);
    train({"--out", out, "--overwrite", "--checkpoint-every", "2it"});
    EXPECT_EQ(read_file(theirs), "keep this") << name;
  }
  // The output folder itself may be a link.
  renew("unused");
  fs::create_directory_symlink(out, folder / "linked");
  EXPECT_EQ(train({"--out", folder / "linked", "--checkpoint-every", "2it"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(out / "snapshot_iter_4"));
}

TEST_F(StrangeFiles, KeepsFilesOfUsers) {
  const fs::path out = folder / "result";
  const std::vector<std::string> names = {
      "thesis.2024.tmp", "log.9.tmp", "checkpoints/thesis.2024.tmp",
      "checkpoints/iter_2/thesis.tex", "checkpoints/iter_7.tmp/thesis.tex"};
  for (const std::string& name : names) {
    fs::create_directories((out / name).parent_path());
    write_file(out / name, "a user's");
  }
  const std::vector<std::string> flags = {"--out", out, "--checkpoint-every", "1it", "--keep", "1"};
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--overwrite"}, {"--resume", "auto"}, {}, {"--overwrite"}}) {
    const Finished job = train(with(flags, more));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    for (const std::string& name : names) EXPECT_TRUE(fs::exists(out / name)) << name;
  }
}

}  // namespace
}  // namespace tasuki::testing

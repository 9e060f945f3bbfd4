// What train_mnist prints, and for bad input: one line, once, from a job that ends with an error.

#include <fstream>
#include <regex>

#include "core/error.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

class Console : public TrainMnist {
 protected:
  void expect_one_line(const Finished& job, const std::string& line, ErrorKind kind) {
    EXPECT_FALSE(job.timed_out) << job.all();
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.all(), line), 1) << line << "\n--- in ---\n" << job.all();
    EXPECT_EQ(job.out, "");
  }
};

TEST_F(Console, RejectsBadInputInOneLine) {
  std::ofstream(folder / "bad.ini") << "epoch = many\n";
  std::ofstream(folder / "in-the-way") << "a file";
  struct Case {
    std::vector<std::string> flags;
    std::string line;
    ErrorKind kind;
  };
  const Case cases[] = {
      {{"--epochs", "3"}, "did you mean --epoch?", ErrorKind::usage},
      {{"--epoch", "0"}, "--epoch: expected an integer from 1", ErrorKind::usage},
      {{"--communicator", "navie"}, "navie", ErrorKind::usage},
      {{"--gpu"}, "--gpu: ", ErrorKind::unavailable},
      {{"--config", folder / "bad.ini"}, "bad.ini:1: epoch: expected", ErrorKind::config},
      {{"--config", folder / "none.ini"}, "none.ini", ErrorKind::missing},
      {{"--resume", folder / "none"}, folder / "none", ErrorKind::missing},
      {{"--shards", "4"}, "4 shards cannot be shared", ErrorKind::config},
      {{"--optimizer", "adadelta", "--lr", "1"}, "leave --lr out", ErrorKind::usage},
      {{"--find-batchsize", "--dry-run"}, "exclude each other", ErrorKind::usage},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.flags.front());
    expect_one_line(run(3, "result", c.flags), c.line, c.kind);
  }
}

TEST_F(Console, RejectsUnusableOutputFolderInOneLine) {
  std::ofstream(folder / "in-the-way") << "a file";
  expect_one_line(run(2, "in-the-way", {}), folder / "in-the-way", ErrorKind::cannot_write);
  expect_one_line(run(2, "in-the-way/below", {}), folder / "in-the-way", ErrorKind::cannot_write);
  // No folder can be made there, not even by root.
  const Finished job =
      run_program(mpirun(2, {TRAIN_MNIST, "--data", data, "--out", "/proc/tasuki"}));
  expect_one_line(job, "/proc/tasuki", ErrorKind::cannot_write);
}

// Without mpirun, MPI makes its folder in the program.
TEST_F(Console, RejectsUnusableMpiSessionFolderInOneLine) {
  const Finished ended = run_program({TRAIN_MNIST, "--data", data}, 60, {{"TMPDIR", "/proc/none"}});
  EXPECT_EQ(ended.exit_code, 73);
  EXPECT_EQ(ended.err.find("error: TMPDIR=/proc/none: no folder can be made there"), 0u)
      << ended.err;
  EXPECT_EQ(count_of(ended.err, "\n"), 1) << ended.err;
}

// It takes less than a job of mpirun's.
TEST_F(Console, NeedsLittleMpiSessionSpaceForOneProcess) {
  std::filesystem::create_directory(folder / "disk");
  const std::string disk = folder / "disk";
  const auto run_with = [&](const std::string& size) {
    const std::string mounted = "mount -t tmpfs -o size=" + size + " disk '" + disk +
                                "' 2>/dev/null || exit 77; exec \"$@\"";
    return run_program({"unshare", "--mount", "--map-root-user", "bash", "-c", mounted, "bash",
                        "env", "TMPDIR=" + disk, TRAIN_MNIST, "--help"});
  };
  const Finished small = run_with("4m");
  if (small.exit_code == 77 || count_of(small.err, "unshare: ") > 0)
    GTEST_SKIP() << "this machine allows no mounts in a namespace";
  EXPECT_EQ(small.exit_code, 73);
  EXPECT_EQ(count_of(small.err, "/disk: 4.2 MB are free there, and 9.4 MB are needed; "), 1)
      << small.err;
  const Finished enough = run_with("9m");
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
}

TEST_F(Console, RejectsBadDataInOneLine) {
  const std::string images = data + "/train-images-idx3-ubyte";
  std::string contents;
  {
    std::ifstream file(images, std::ios::binary);
    contents.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto rewrite = [&](const std::string& bytes) {
    std::ofstream(images, std::ios::binary | std::ios::trunc) << bytes;
  };
  rewrite(contents.substr(0, contents.size() / 2));
  expect_one_line(run(3, "result", {}), images, ErrorKind::data);
  const std::string tests = data + "/t10k-images-idx3-ubyte";
  {
    rewrite(contents);
    const std::vector<std::string> files = {tests, data + "/t10k-labels-idx1-ubyte"};
    for (const std::string& file : files) {
      std::filesystem::copy(file, file + ".whole");
      std::filesystem::resize_file(file, file == tests ? 16 : 8);
      std::fstream header(file, std::ios::binary | std::ios::in | std::ios::out);
      header.seekp(4);
      header.write("\0\0\0\0", 4);
    }
    expect_one_line(run(3, "result", {}), data + ": expected examples to evaluate on, found none",
                    ErrorKind::data);
    for (const std::string& file : files) std::filesystem::rename(file + ".whole", file);
  }
  std::string wrong_magic = contents;
  wrong_magic[3] = '\x7f';
  rewrite(wrong_magic);
  expect_one_line(run(3, "result", {}), images, ErrorKind::data);
  std::filesystem::remove(images);
  expect_one_line(run(3, "result", {}), "expected train-images-idx3-ubyte or", ErrorKind::missing);
  std::filesystem::remove_all(data);
  expect_one_line(run(3, "result", {}), data, ErrorKind::missing);
}

TEST_F(Console, NamesRanksStartedDifferently) {
  const std::string line = "exec \"$0\" --epoch $((" + rank_variable() + " + 1)) \"$@\"";
  const Finished job = run_program(mpirun(2, with({"sh", "-c", line}, program("result", {}))));
  expect_one_line(job, "rank 1 on ", ErrorKind::disagreement);
  EXPECT_NE(job.err.find("argument 2"), std::string::npos) << job.err;
}

TEST_F(Console, PrintsBannerAndTableOnce) {
  const Finished job = run(3, "result", {"--epoch", "2", "-b", "16", "--communicator", "flat"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* part :
       {"Num process (COMM_WORLD): 3\n", "Using flat communicator: ", "Num unit: 32\n",
        "Num Minibatch-size: 16 per rank, 48 together\n", "Num epoch: 2\n", "rank  host",
        "epoch       main/loss   validation/main/loss  main/accuracy", "20 steps in "})
    EXPECT_EQ(count_of(job.out, part), 1) << part << "\n--- in ---\n" << job.out;
  EXPECT_NE(job.out.find("Data: " + data), std::string::npos) << job.out;
  EXPECT_EQ(job.out.find('\x1b'), std::string::npos) << "escapes in a pipe";
}

// In the tests' pipes.
TEST_F(Console, PrintsStepsWithoutATerminal) {
  const std::vector<std::string> flags = {"--epoch", "1", "-b", "4"};
  const Finished often = run(2, "result", with(flags, {"--progress-every", "0.000001"}));
  EXPECT_GE(count_of(often.out, "\niteration "), 10) << often.all();
  EXPECT_GE(count_of(often.out, " examples/s\n"), 10) << often.all();
  EXPECT_EQ(count_of(run(2, "result", with(flags, {"--print-config"})).out, "progress-every = 30 "),
            1);
}

TEST_F(Console, QuietPrintsNothing) {
  const Finished job = run(2, "result", {"--epoch", "1", "--quiet"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_EQ(job.out, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "result/log"));
}

TEST_F(Console, DryRunReportsWithoutTraining) {
  const Finished job = run(2, "result", {"--dry-run", "--batchsize", "16", "--epoch", "3"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* part :
       {"predictor/l1/W", "32x784", "26506 in all", "Steps: 15 per epoch, 45 in all",
        "Memory per rank: 0.1 MB parameters", "rank  host", "Dry run: nothing was trained\n"})
    EXPECT_EQ(count_of(job.out, part), 1) << part << "\n--- in ---\n" << job.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "result"));
}

// 15 batches of an epoch are four iterations, the last one of three batches.
TEST_F(Console, DryRunCountsIterationsOfSeveralBatches) {
  const Finished job = run(2, "result",
                           {"--dry-run", "--batchsize", "16", "--epoch", "3", "--accumulate", "4",
                            "--lr-scaling", "linear", "--lr-reference-batch", "32"});
  ASSERT_EQ(job.exit_code, 0) << job.all();
  for (const char* part :
       {"4 batches in an iteration, 128 examples\n", "Steps: 4 per epoch, 12 in all",
        "x 4 (linear scaling: global batch 128, recipe 32)"})
    EXPECT_EQ(count_of(job.out, part), 1) << part << "\n--- in ---\n" << job.out;
}

// A single number, close to what a run uses.
TEST_F(Console, DryRunPredictsMemory) {
  const auto number_before = [](const std::string& text, const std::string& words) {
    const auto end = text.find(words);
    EXPECT_NE(end, std::string::npos) << words << "\n--- in ---\n" << text;
    return end == std::string::npos ? 0 : std::stod(text.substr(text.rfind(' ', end - 1)));
  };
  const std::vector<std::string> flags = {"--unit", "1500", "--max-iterations", "3"};
  const Finished plan = run(2, "result", with(flags, {"--dry-run"}));
  const double foretold = number_before(plan.out, " MB in all\n");
  double sum = 0;
  for (const char* part :
       {" MB parameters", " MB gradients", " MB optimizer state", " MB activations", " MB data",
        " MB copy for checkpoints", " MB states gathered", " MB MPI, libraries"})
    sum += number_before(plan.out, part);
  EXPECT_NEAR(sum, foretold, 0.4) << "rounding of eight";
  const Finished job = run(2, "result", flags);
  const double taken = number_before(job.out, " MB of memory per rank");
  EXPECT_NEAR(foretold, taken, 0.3 * taken);
}

// Of OMP_NUM_THREADS and of a rate that is scaled.
TEST_F(Console, BannerNamesOriginOfNumbers) {
  const auto banner = [&](const std::vector<std::string>& flags, const char* omp_num_threads) {
    const std::map<std::string, std::string> changes = {{"OMP_NUM_THREADS", omp_num_threads}};
    return run_program(with({TRAIN_MNIST, "--dry-run", "--data", data, "-u", "8"}, flags), 60,
                       changes)
        .out;
  };
  const std::string given = banner({"--optimizer", "sgd", "--lr", "0.1", "--lr-scaling", "linear",
                                    "-b", "400", "--momentum", "auto"},
                                   "3,1");
  EXPECT_EQ(count_of(given, "\nthreads: as OMP_NUM_THREADS says\n"), 1) << given;
  EXPECT_EQ(count_of(given, "        3  "), 1) << given;
  EXPECT_EQ(count_of(given,
                     "\nOptimizer: SGD, lr 0.4 = 0.1 x 4 (linear scaling: global batch 400, recipe "
                     "100)\n"),
            1)
      << given;
  const std::string overruled = banner({"--threads", "2"}, "3");
  EXPECT_EQ(count_of(overruled, "\nthreads: as --threads says\n"), 1) << overruled;
  const std::string unset = banner({}, "");
  EXPECT_EQ(count_of(unset, "\nthreads: the node's cores shared among its ranks\n"), 1) << unset;
}

TEST_F(Console, PrintsHelpVersionAndListingsOnce) {
  std::ofstream(folder / "help.ini") << "communicator = help\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{TRAIN_MNIST, "--help"}, "tasuki-run -np 4 train_mnist"},
      {{TRAIN_MNIST, "-h", "--epoch", "3"}, "\n  -e, --epoch N "},
      {{TRAIN_MNIST, "--help", "all"}, "\n      --clip-norm X "},
      {{TRAIN_MNIST, "--help=Clip"}, "Optimizer:\n      --clip-norm X "},
      {{TRAIN_MNIST, "--version"}, "train_mnist (Tasuki) "},
      {{TRAIN_MNIST, "--communicator", "help"}, "two_dimensional"},
      {{TRAIN_MNIST, "--config", folder / "help.ini"}, "two_dimensional"},
      {{TRAIN_MNIST, "--optimizer", "help"}, "\nmomentum_sgd "},
      {{TRAIN_MNIST, "--print-config"}, "\nbatchsize = 100 "}};
  for (const auto& [words, part] : cases) {
    const Finished job = run_program(mpirun(2, words));
    EXPECT_EQ(job.exit_code, 0) << job.all();
    EXPECT_EQ(count_of(job.out, part), 1) << job.all();
  }
}

TEST_F(Console, VersionNamesOneDnnWithItsRuntimeAndMpi) {
  const Finished job = run_program({TRAIN_MNIST, "--version"});
  EXPECT_TRUE(
      std::regex_search(job.out, std::regex("\ncpu: oneDNN [0-9.]+ \\((OMP|SEQ)\\)\nMPI: \\S")))
      << job.all();
}

TEST_F(Console, RejectsHelpForAnUnknownWordInOneLine) {
  const Finished job = run_program(mpirun(2, {TRAIN_MNIST, "--help", "bacthsize"}));
  EXPECT_EQ(job.exit_code, 64) << job.all();
  EXPECT_EQ(job.out, "");
  EXPECT_EQ(count_of(job.err,
                     "error: --help: no flag mentions 'bacthsize'; did you mean --batchsize? "
                     "(--help all lists all flags)\n"),
            1)
      << job.err;
}

TEST_F(Console, PrintedConfigReproducesTheRun) {
  const Finished first =
      run(1, "result", {"--print-config", "--batchsize", "16", "--epoch", "1", "--seed", "5"});
  ASSERT_EQ(first.exit_code, 0) << first.all();
  std::ofstream(folder / "run.ini") << first.out;
  const Finished second =
      run_program({TRAIN_MNIST, "--config", folder / "run.ini", "--print-config"});
  ASSERT_EQ(second.exit_code, 0) << second.all();
  const auto settings = [](const std::string& text) {
    std::string kept;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      kept += line.substr(0, line.find(" # ")) + '\n';
    return kept.substr(0, kept.find_last_not_of(' ') + 1);
  };
  EXPECT_EQ(settings(first.out), settings(second.out));
  const Finished third = run_program(mpirun(2, {TRAIN_MNIST, "--config", folder / "run.ini"}));
  EXPECT_EQ(third.exit_code, 0) << third.all();
  EXPECT_EQ(read_log("result").size(), 1u);
}

TEST_F(Console, DoesNotHangWhenItsReaderExits) {
  std::string command;
  for (const std::string& word : mpirun(2, program("result", {"--epoch", "3", "--log-every", "1"})))
    command += "'" + word + "' ";
  const Finished job = run_program({"sh", "-c", command + "| head -n 1"}, 30);
  EXPECT_FALSE(job.timed_out) << job.all();
  EXPECT_EQ(count_of(job.out, "\n"), 1) << job.all();
}

}  // namespace
}  // namespace tasuki::testing

// The experiment program: a real grid, also with runs that fail, hang or are interrupted.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>
#include <fstream>

#include "program/start/processors.hpp"
#include "tests/support/json.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Experiment : public ::testing::Test {
 protected:
  // A program with a training program's results and --print-config that fails on --mode=fail, has
  // no
  // --mode=wrong, runs out of memory or is killed, and hangs with a child while there is a file
  // `hang`.
  Experiment() {
    write("program",
          "#!/bin/bash\n"
          "cd '" +
              folder.path().string() +
              "'\n"
              "for word; do case $word in --out=*) out=${word#*=} ;; --mode=*) mode=${word#*=} ;; "
              "--print-config) asked=1 ;; esac; done\n"
              "if [ $asked ]; then echo asked >> asked\n"
              "  if [ \"$mode\" = wrong ]; then echo 'error: --mode: expected another' >&2; exit "
              "64; fi\n"
              "  echo '# program'; echo 'mode = good  # default'; echo 'lr = 1'; exit 0; fi\n"
              "echo $mode >> started\n"
              "if [ $mode = full ]; then\n"
              "  echo 'rank 1 on h: cpu is out of memory: 9.0 MiB more were asked for' >&2; exit "
              "69; fi\n"
              "if [ $mode = locked ]; then for one in results/*/lock; do\n"
              "  flock -n $one true || echo $one >> held; done; fi\n"
              "if [ $mode = killed ]; then kill -9 $$; fi\n"
              "if [ $mode = fail ]; then echo 'error: no luck' >&2; echo bye; exit 65; fi\n"
              "if [ $mode = slow ] && [ -e hang ]; then\n"
              "  setsid sleep 100 & echo $! > child; sleep 100; fi\n"
              "mkdir -p \"$out\"\n"
              "echo '[{\"epoch\": 1, \"iteration\": 5, \"elapsed_time\": 2.5, "
              "\"validation/main/accuracy\": 0.75}]' > \"$out/log\"\n"
              "if [ -e version ]; then echo \"{\\\"version\\\": \\\"$(cat version)\\\", "
              "\\\"host\\\": \\\"h\\\", \\\"machine\\\": \\\"m\\\", "
              "\\\"device\\\": \\\"cpu\\\", \\\"data\\\": \\\"d\\\", "
              "\\\"global_batch\\\": 10}\" > \"$out/about.json\"; fi\n");
    std::filesystem::permissions(folder / "program", std::filesystem::perms::owner_all);
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
  }
  std::string read(const std::string& name) {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Finished experiment(const std::string& settings, const std::vector<std::string>& flags = {},
                      const std::function<void(pid_t program)>& meanwhile = {}) {
    write("e.ini", "program = " + (folder / "program").string() + "\nlauncher =\n" + settings);
    std::vector<std::string> words = {EXPERIMENT, folder / "e.ini",
                                      "--folder=" + (folder / "results").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_program(words, 60, {}, meanwhile);
  }
  // The same, ended by a signal once a run hangs with its child.
  Finished experiment_until_it_hangs(const std::string& settings, int signal) {
    write("hang", "");
    bool is_sent = false;
    Finished cut = experiment(settings, {}, [&](pid_t program) {
      if (!is_sent && count_of(read("child"), "\n") == 1) is_sent = kill(program, signal) == 0;
    });
    EXPECT_TRUE(is_sent) << cut.all();
    std::filesystem::remove(folder / "hang");
    return cut;
  }
  bool is_child_alive() {
    const int child = std::stoi(read("child"));
    for (int wait = 0; wait < 100 && kill(child, 0) == 0; ++wait) usleep(20'000);
    return kill(child, 0) == 0;
  }

  TemporaryFolder folder;
};

TEST_F(Experiment, RunsAGridAndWritesTables) {
  const Finished first = experiment("mode = good, better\n");
  EXPECT_EQ(first.exit_code, 0) << first.all();
  EXPECT_THAT(first.out, HasSubstr("[2/2] mode better: 2.50 s, accuracy 0.7500\n"));
  EXPECT_THAT(read("results/table.md"), HasSubstr("| 1 | good | 2.50 |"));
  EXPECT_THAT(read("results/table.csv"), HasSubstr("1,1,better,1,2.5,"));
  EXPECT_THAT(read("results/plot.gp"), HasSubstr("'mode good' 0"));
  EXPECT_TRUE(std::filesystem::exists(folder / "results/plot.svg") ||
              first.out.find("gnuplot is not installed") != std::string::npos);

  const Finished second = experiment("mode = good, better, best\n");
  EXPECT_EQ(second.exit_code, 0) << second.all();
  EXPECT_THAT(second.out, HasSubstr("[1/3] mode good: done before, 2.50 s"));
  EXPECT_EQ(read("started"), "good\nbetter\nbest\n");
}

// A training program would take over the link, and the table the load of ranks.
TEST_F(Experiment, RerunStartsFromScratch) {
  EXPECT_EQ(experiment("mode = good\n").exit_code, 0);
  std::string result;
  for (const auto& each : std::filesystem::directory_iterator(folder / "results/runs"))
    if (each.is_directory()) result = each.path() / "result";
  ASSERT_TRUE(std::filesystem::exists(result + "/log"));
  const std::vector<std::string> former = {"link.json", "monitor.0.csv", "monitor.1.2.csv",
                                           "about.json", "snapshot_iter_5"};
  const std::vector<std::string> own = {"monitor.csv", "notes", "monitor.1.csv.old"};
  for (const auto* const names : {&former, &own})
    for (const std::string& name : *names) std::ofstream(result + '/' + name) << "x";
  EXPECT_EQ(experiment("mode = good\n", {"--rerun=all"}).exit_code, 0);
  EXPECT_EQ(read("started"), "good\ngood\n");
  for (const std::string& name : former)
    EXPECT_FALSE(std::filesystem::exists(result + '/' + name)) << name;
  for (const std::string& name : own)
    EXPECT_TRUE(std::filesystem::exists(result + '/' + name)) << name;
}

TEST_F(Experiment, DryRunOnlyListsCommands) {
  const Finished run = experiment("mode = good\nlr = 1, 2\n", {"--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.all();
  EXPECT_THAT(run.out, HasSubstr("program --mode=good --lr=2 --out="));
  EXPECT_EQ(read("started"), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "results"));
}

TEST_F(Experiment, ReportsKeepsAndRetriesFailedRuns) {
  for (int start = 1; start <= 2; ++start) {
    const Finished run = experiment("mode = fail, good\n");
    EXPECT_EQ(run.exit_code, 1) << run.all();
    EXPECT_THAT(run.out, HasSubstr("mode fail: FAILED, exit code 65: error: no luck ("));
    EXPECT_THAT(run.out, HasSubstr("1 of 2 runs have no result"));
    EXPECT_THAT(read("results/table.md"), HasSubstr("| 1 | fail | **failed** |"));
  }
  EXPECT_EQ(read("started"), "fail\ngood\nfail\n");
}

TEST_F(Experiment, ReportsRunsThatRanOutOfMemory) {
  const Finished run = experiment("mode = full, killed, fail\n");
  EXPECT_EQ(run.exit_code, 1) << run.all();
  EXPECT_THAT(run.out,
              HasSubstr("mode full: FAILED, out of memory, exit code 69: rank 1 on h: cpu is"));
  EXPECT_THAT(run.out, HasSubstr("mode killed: FAILED, killed (out of memory?), exit code 137"));
  const std::string table = read("results/table.md");
  EXPECT_THAT(table, HasSubstr("| 1 | full | **out of memory** |"));
  EXPECT_THAT(table, HasSubstr("| 2 | killed | **killed (out of memory?)** |"));
  EXPECT_THAT(table, HasSubstr("| 3 | fail | **failed** |"));
}

TEST_F(Experiment, RejectsWrongNamesAndValuesBeforeTheFirstRun) {
  const auto expect_refused = [&](const std::string& settings, const std::string& error) {
    const Finished run = experiment(settings);
    EXPECT_EQ(run.exit_code, 78) << run.all();
    EXPECT_EQ(run.err, "error: " + (folder / "e.ini").string() + error + '\n');
    EXPECT_EQ(read("started"), "");
  };
  expect_refused("mode = good\nmoed = good\n",
                 ":4: 'moed' is neither a flag of program nor a key of experiments; did you mean "
                 "'mode'?");
  expect_refused("mode = good\nrepeats = 3\n",
                 ":4: 'repeats' is neither a flag of program nor a key of experiments; did you "
                 "mean 'repeat'?");
  expect_refused("lr = 1, 2\nmode = good, wrong\n",
                 ":4: row 2 (lr 1, mode wrong): --mode: expected another");
  // Each program with its flags is asked once.
  std::filesystem::remove(folder / "asked");
  EXPECT_EQ(experiment("mode = good\nnp = 1, 2\nrepeat = 2\n").exit_code, 0);
  EXPECT_EQ(read("asked"), "asked\nasked\n");
  // Finished runs are not checked.
  EXPECT_EQ(experiment("mode = good\nnp = 1, 2\nrepeat = 2\n").exit_code, 0);
  EXPECT_EQ(read("asked"), "asked\nasked\n");
  write("beside.ini", "program = train_mnits\n");
  const Finished beside = run_program({EXPERIMENT, folder / "beside.ini", "--dry-run"});
  EXPECT_EQ(beside.exit_code, 78);
  EXPECT_THAT(beside.err, HasSubstr("beside.ini:1: program: there is no train_mnits in "));
  EXPECT_THAT(beside.err, HasSubstr("; did you mean 'train_mnist'?\n"));
}

TEST_F(Experiment, RunsSectionsAsSeparateExperiments) {
  const std::string sections = "mode = a\n[first]\nlr = 1, 2\n\n[second]\nmode = b\n";
  const Finished run = experiment(sections);
  EXPECT_EQ(run.exit_code, 0) << run.all();
  EXPECT_EQ(read("started"), "a\na\nb\n");
  EXPECT_THAT(read("results/first/table.md"), HasSubstr("## e: first\n"));
  EXPECT_THAT(read("results/first/table.md"), HasSubstr("| 2 | 2 | 2.50 |"));
  EXPECT_THAT(read("results/second/table.md"), HasSubstr("--mode=b"));
  EXPECT_EQ(experiment(sections, {"--section=second", "--rerun=all"}).exit_code, 0);
  EXPECT_EQ(read("started"), "a\na\nb\nb\n");
  const Finished which = experiment(sections, {"--rerun=all"});
  EXPECT_EQ(which.exit_code, 64);
  EXPECT_THAT(which.err, HasSubstr("choose one with --section"));
  const Finished unknown = experiment(sections, {"--section=third"});
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_THAT(unknown.err, HasSubstr("has no section [third]; it has first, second\n"));
  // All folders are locked as long as one of the experiments runs.
  EXPECT_EQ(experiment("[one]\nmode = locked\n[two]\nmode = a\n").exit_code, 0);
  EXPECT_EQ(read("held"), "results/one/lock\nresults/two/lock\n");
  write("started", "");
  // An error in one experiment keeps the others from starting.
  const Finished wrong = experiment("[good]\nmode = c\n[bad]\nmode = wrong\n");
  EXPECT_EQ(wrong.exit_code, 78) << wrong.all();
  EXPECT_THAT(wrong.err, HasSubstr("e.ini:6: row 1 (the only one): --mode: expected another"));
  EXPECT_EQ(read("started"), "");
}

TEST_F(Experiment, TimesOutRunsWithTheirChildren) {
  write("hang", "");
  const Finished run = experiment("mode = slow, good\ntimeout = 4\n");
  EXPECT_EQ(run.exit_code, 1) << run.all();
  EXPECT_THAT(run.out, HasSubstr("mode slow: FAILED, not finished after 4 s"));
  EXPECT_THAT(run.out, HasSubstr("mode good: 2.50 s"));
  EXPECT_FALSE(is_child_alive());
}

TEST_F(Experiment, ContinuesAfterAnInterrupt) {
  const Finished cut = experiment_until_it_hangs("mode = good, slow, better\n", SIGINT);
  EXPECT_EQ(cut.exit_code, 130) << cut.all();
  EXPECT_THAT(cut.out, HasSubstr("interrupted; the next start does the remaining 2 of 3 runs"));
  EXPECT_FALSE(is_child_alive());
  const Finished rest = experiment("mode = good, slow, better\n");
  EXPECT_EQ(rest.exit_code, 0) << rest.all();
  EXPECT_EQ(read("started"), "good\nslow\nslow\nbetter\n");
}

TEST_F(Experiment, ContinuesAfterBeingKilled) {
  EXPECT_EQ(experiment_until_it_hangs("mode = good, slow\n", SIGKILL).exit_code, 128 + SIGKILL);
  write("results/runs/leftover", "");
  const Finished rest = experiment("mode = good, slow\n");
  EXPECT_EQ(rest.exit_code, 0) << rest.all();
  EXPECT_EQ(read("started"), "good\nslow\nslow\n");
}

TEST_F(Experiment, ReplacesDamagedRecords) {
  experiment("mode = good\n");
  for (const auto& run : std::filesystem::directory_iterator(folder / "results/runs"))
    std::ofstream(run.path() / "run.json") << "{";
  const Finished again = experiment("mode = good\n");
  EXPECT_EQ(again.exit_code, 0) << again.all();
  EXPECT_EQ(read("started"), "good\ngood\n");
}

TEST_F(Experiment, NamesAndRerunsRowsOfAnotherVersion) {
  write("version", "1");
  const Finished first = experiment("mode = a, b\n");
  EXPECT_THAT(first.out, Not(HasSubstr("warning:")));
  write("version", "2");
  const Finished mixed = experiment("mode = a, b, c\n");
  EXPECT_EQ(mixed.exit_code, 0) << mixed.all();
  EXPECT_THAT(mixed.out,
              HasSubstr("warning: rows 1,2 and row 3 were made with different versions"));
  EXPECT_THAT(read("results/table.md"), HasSubstr("- rows 1,2: 1; m; data in d\n"));

  const Finished listed = experiment("mode = a, b, c\n", {"--rerun=1,2", "--dry-run"});
  EXPECT_EQ(count_of(listed.out, "# done: "), 1) << listed.out;
  EXPECT_EQ(read("started"), "a\nb\nc\n");
  const Finished again = experiment("mode = a, b, c\n", {"--rerun=1,2"});
  EXPECT_EQ(again.exit_code, 0) << again.all();
  EXPECT_THAT(again.out, Not(HasSubstr("warning:")));
  EXPECT_EQ(read("started"), "a\nb\nc\na\nb\n");
  experiment("mode = a, b, c\n", {"--rerun=all"});
  EXPECT_EQ(read("started"), "a\nb\nc\na\nb\na\nb\nc\n");
}

TEST_F(Experiment, RejectsBadInputInOneLine) {
  const Finished bad = experiment("mode = a\nnp = none\n");
  EXPECT_EQ(bad.exit_code, 78);
  EXPECT_THAT(bad.err, HasSubstr("e.ini:4: np: expected an integer"));
  EXPECT_EQ(count_of(bad.err, "\n"), 1);
  const Finished missing = run_program({EXPERIMENT, folder / "none.ini"});
  EXPECT_EQ(missing.exit_code, 66);
  EXPECT_EQ(run_program({EXPERIMENT}).exit_code, 64);
  for (const char* rows : {"--rerun=0", "--rerun=2", "--rerun=1,x", "--rerun=1,,1"}) {
    const Finished rerun = experiment("mode = a\n", {rows});
    EXPECT_EQ(rerun.exit_code, 64) << rerun.all();
    EXPECT_THAT(rerun.err, HasSubstr("--rerun: expected rows of the table (1 to 1)"));
  }
  EXPECT_EQ(experiment("mode = a\n", {"--rerun=1", "--tables-only"}).exit_code, 64);
  const Finished no_program = experiment("program = x\n");
  EXPECT_EQ(no_program.exit_code, 78);
}

TEST_F(Experiment, ReportsMissingProgramAsFailedRun) {
  std::filesystem::remove(folder / "program");
  const Finished run = experiment("mode = a\n");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("cannot be started: No such file or directory"));
}

TEST_F(Experiment, LocksItsFolder) {
  std::filesystem::create_directories(folder / "results");
  const int first = open((folder / "results/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(first, LOCK_EX), 0);
  const Finished second = experiment("mode = good\n");
  close(first);
  EXPECT_EQ(second.exit_code, 78);
  EXPECT_THAT(second.err, HasSubstr("another experiment runs in"));
}

// With train_mnist.
class TrainingExperiment : public TrainMnist {};

TEST_F(TrainingExperiment, ChecksFlagsWithTheProgram) {
  const auto error_of = [&](const std::string& line) {
    std::ofstream(folder / "e.ini") << "program = " << TRAIN_MNIST << "\nlauncher =\n" << line;
    const Finished run = run_program({EXPERIMENT, folder / "e.ini", "--dry-run"});
    EXPECT_EQ(run.exit_code, 78) << run.all();
    return run.err;
  };
  EXPECT_THAT(error_of("bachsize = 10\n"),
              HasSubstr("e.ini:3: 'bachsize' is neither a flag of train_mnist nor a "));
  EXPECT_THAT(error_of("bachsize = 10\n"), HasSubstr("; did you mean 'batchsize'?\n"));
  EXPECT_THAT(error_of("communicator = flat, flot\n"),
              HasSubstr("e.ini:3: row 2 (communicator flot): --communicator: expected "));
}

TEST_F(TrainingExperiment, TrainsOnOneAndTwoRanks) {
  std::ofstream(folder / "e.ini") << "program = " << TRAIN_MNIST << "\n"
                                  << "launcher = env OMPI_ALLOW_RUN_AS_ROOT=1 "
                                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -np {np} "
                                     "--oversubscribe --bind-to none\n"
                                  << "np = 1, 2\ncommunicator = flat\nunit = 16\nepoch = 2\n"
                                  << "threads = 1\ndata = " << data << '\n';
  const Finished run =
      run_program({EXPERIMENT, folder / "e.ini", "--folder=" + (folder / "results").string()});
  EXPECT_EQ(run.exit_code, 0) << run.all();
  EXPECT_THAT(
      run.out,
      HasSubstr(
          "| | processes | time [s] | first epoch [s] | other epochs, median [s] | speed-up |"));
  EXPECT_EQ(count_of(run.out, "--communicator=flat"), 2) << run.out;
  for (const auto& one : std::filesystem::directory_iterator(folder / "results/runs")) {
    const auto record = json_in(one.path() / "run.json");
    const std::string np = record.at("settings").at("np");
    EXPECT_EQ(record.at("origin").at("data"), data);
    EXPECT_EQ(record.at("origin").at("global_batch"), 100 * std::stoi(np));
    EXPECT_EQ(record.at("origin").at("oversubscribed"),
              std::stoi(np) > program::find_processors().cores);
    for (const char* name : {"version", "host", "machine"})
      EXPECT_NE(record.at("origin").at(name), "") << name;
    const auto ranks = json_in(one.path() / "result/step_times.json");
    EXPECT_EQ(ranks.size(), std::stoul(np));
    for (const auto& rank : ranks) EXPECT_GT(rank.at("steps"), 0);
  }
}

TEST_F(TrainingExperiment, CountsTheThreadsOfWorkers) {
  const int cores = program::find_processors().cores;
  std::ofstream(folder / "e.ini")
      << "program = train_mnist_data_parallel\nlauncher =\nthreads = 1\n"
      << "devices = cpu:" << cores << ", cpu:" << 2 * cores << '\n'
      << "unit = 4\nmax-iterations = 1\ndata = " << data << '\n';
  const Finished run =
      run_program({EXPERIMENT, folder / "e.ini", "--folder=" + (folder / "results").string()});
  EXPECT_EQ(run.exit_code, 0) << run.all();
  for (const auto& one : std::filesystem::directory_iterator(folder / "results/runs")) {
    const auto record = json_in(one.path() / "run.json");
    EXPECT_EQ(record.at("origin").at("oversubscribed"),
              record.at("settings").at("devices") != fmt::format("cpu:{}", cores));
  }
}

// A program leaves old results alone and would write beside them.
TEST_F(TrainingExperiment, RerunUsesTheSameFolder) {
  std::ofstream(folder / "e.ini") << "program = " << TRAIN_MNIST
                                  << "\nlauncher =\nunit = 8\nepoch = 1\nthreads = 1\ndata = "
                                  << data << '\n';
  for (int start = 1; start <= 2; ++start) {
    const Finished run = run_program(
        {EXPERIMENT, folder / "e.ini", "--rerun=all", "--folder=" + (folder / "results").string()});
    EXPECT_EQ(run.exit_code, 0) << run.all();
    int runs = 0;
    for (const auto& one : std::filesystem::directory_iterator(folder / "results/runs")) {
      ++runs;
      EXPECT_TRUE(std::filesystem::exists(one.path() / "result/log"));
      EXPECT_FALSE(std::filesystem::exists(one.path() / "result-2"));
      const auto snapshot = one.path() / "result/snapshot_iter_999",
                 notes = one.path() / "result/notes";
      EXPECT_FALSE(std::filesystem::exists(snapshot)) << "of the run before";
      EXPECT_EQ(std::filesystem::exists(notes), start == 2) << "a user's";
      for (const auto& file : {snapshot, notes}) std::ofstream(file) << "old";
    }
    EXPECT_EQ(runs, 1);
  }
}

}  // namespace
}  // namespace tasuki::testing

// Experiment files, and the tables of their runs.
#include "tools/experiment/plan.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/experiment/plot.hpp"
#include "tools/experiment/record.hpp"
#include "tools/experiment/table.hpp"

namespace tasuki::experiment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ExperimentPlan parse(const std::string& text) {
  return parse_experiments(text, "e.ini", "/bin").at(0);
}

std::string error_of(const std::string& text) {
  const auto error = testing::caught([&] { parse(text); });
  if (!error) return "(none)";
  EXPECT_EQ(error->kind(), ErrorKind::config);
  return error->what();
}

std::vector<std::string> commands(const ExperimentPlan& plan) {
  std::vector<std::string> all;
  for (const RunSettings& run : plan.runs()) {
    std::string line;
    for (const std::string& word : plan.command(run, "O")) line += word + ' ';
    all.push_back(line);
  }
  return all;
}

TEST(ExperimentFile, FormsAGridFromCommaSeparatedValues) {
  const ExperimentPlan plan = parse("program = t\nnp = 1,2\nlr = 0.1, 0.2 # two\nepoch = 3\n");
  EXPECT_THAT(commands(plan), ElementsAre("mpirun -np 1 /bin/t --lr=0.1 --epoch=3 --out=O ",
                                          "mpirun -np 1 /bin/t --lr=0.2 --epoch=3 --out=O ",
                                          "mpirun -np 2 /bin/t --lr=0.1 --epoch=3 --out=O ",
                                          "mpirun -np 2 /bin/t --lr=0.2 --epoch=3 --out=O "));
  EXPECT_THAT(plan.varying(), ElementsAre("np", "lr"));
  EXPECT_EQ(plan.title, "e");
}

TEST(ExperimentFile, AcceptsWindowsLineEndings) {
  const auto plans = parse_experiments(
      "\xEF\xBB\xBF[one]\r\nprogram = t\r\nnp = 1,2\r\n[two]\r\nprogram = u\r\nlauncher =\r\n",
      "e.ini", "/bin");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].section, "one");
  EXPECT_THAT(commands(plans[0]),
              ElementsAre("mpirun -np 1 /bin/t --out=O ", "mpirun -np 2 /bin/t --out=O "));
  EXPECT_THAT(commands(plans[1]), ElementsAre("/bin/u --out=O "));
}

TEST(ExperimentFile, KeepsEscapedCommasInValues) {
  const ExperimentPlan plan = parse("program = ./t\nlauncher =\ndevices = cpu:1, 0\\,1\n");
  EXPECT_THAT(commands(plan),
              ElementsAre("./t --devices=cpu:1 --out=O ", "./t --devices=0,1 --out=O "));
}

TEST(ExperimentFile, UsesItsOwnLauncherForSeveralNodes) {
  const std::string grid = "program = /t\nnp = 1, 2, 4\nnodes = 1, 2\nlauncher = one {np}\n";
  EXPECT_THAT(commands(parse(grid + "launcher_nodes = many {nodes}x{ranks_per_node} --\n")),
              ElementsAre("one 1 /t --out=O ", "one 2 /t --out=O ", "many 2x1 -- /t --out=O ",
                          "one 4 /t --out=O ", "many 2x2 -- /t --out=O "));
  EXPECT_THAT(commands(parse(grid + "hostfile = h\n"))[2],
              HasSubstr("mpirun -np 2 --hostfile h --map-by ppr:1:node /t"));
}

TEST(ExperimentFile, ListsRepeatsAsSeparateRuns) {
  const auto runs = parse("program = t\nrepeat = 3\nseed = 1, 2\n").runs();
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_EQ(runs[2].repeat, 3);
  EXPECT_EQ(runs[2].value("seed"), "1");
  EXPECT_EQ(runs[3].value("seed"), "2");
}

TEST(ExperimentFile, NamesInvalidLines) {
  EXPECT_EQ(error_of("np = 2\n"),
            "e.ini: no program is given; add a line like `program = train_mnist`");
  EXPECT_EQ(error_of("program = t\nnp = 1, x\n"),
            "e.ini:2: np: expected an integer from 1 to 1048576, found '1, x'");
  EXPECT_EQ(error_of("program = t\nnp = 2,,4\n"),
            "e.ini:2: np: expected values between commas, found '2,,4'");
  EXPECT_EQ(error_of("program = t\nlr = 1, 1\n"),
            "e.ini:2: lr: expected different values, found '1, 1'");
  EXPECT_THAT(error_of("program = t\nwhat\n"), HasSubstr("e.ini:2: expected `name = value`"));
  EXPECT_THAT(error_of("program = t\nlr =\n"), HasSubstr("e.ini:2: lr: expected a value"));
  EXPECT_THAT(error_of("program = t\nlr = 1\nlr = 2\n"), HasSubstr("e.ini:3: 'lr' is set twice"));
  EXPECT_THAT(error_of("program = t\nout = x\n"), HasSubstr("e.ini:2: 'out' cannot be set"));
  EXPECT_THAT(error_of("program = t\ncompare = lr\n"),
              HasSubstr("e.ini:2: compare: 'lr' is not set"));
  EXPECT_THAT(error_of("program = t\nlauncher = run {cores}\n"),
              HasSubstr("e.ini:2: launcher: {cores} is unknown"));
  EXPECT_THAT(error_of("program = t\nnp = 2\nnodes = 2\n"),
              HasSubstr("e.ini:3: runs on several nodes"));
  EXPECT_THAT(error_of("program = t\nnp = 3\nnodes = 2\nhostfile = h\n"),
              HasSubstr("e.ini:3: there is nothing to run"));
}

TEST(ExperimentFile, SectionsInheritAndOverrideEarlierKeys) {
  const auto plans = parse_experiments(
      "program = t\ntitle = Both\nlr = 1, 2\n[one]\nepoch = 3\n  [two] # last\nlr = 5\ntitle = 2\n",
      "e.ini", "/bin");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].section, "one");
  EXPECT_THAT(commands(plans[0]), ElementsAre("mpirun -np 1 /bin/t --lr=1 --epoch=3 --out=O ",
                                              "mpirun -np 1 /bin/t --lr=2 --epoch=3 --out=O "));
  EXPECT_EQ(plans[0].title, "Both: one");
  EXPECT_EQ(plans[0].place_of("epoch"), "e.ini:5");
  EXPECT_THAT(commands(plans[1]), ElementsAre("mpirun -np 1 /bin/t --lr=5 --out=O "));
  EXPECT_EQ(plans[1].title, "2");
  EXPECT_EQ(plans[1].place_of("lr"), "e.ini:7");
}

TEST(ExperimentFile, NamesInvalidSections) {
  EXPECT_THAT(error_of("[a\n"),
              HasSubstr("e.ini:1: expected a section name in brackets, of letters"));
  for (const char* name : {"", "..", "a/b", "a b"})
    EXPECT_THAT(error_of(fmt::format("program = t\n[{}]\n", name)),
                HasSubstr("e.ini:2: expected a"));
  EXPECT_EQ(error_of("program = t\n[a]\n[b]\n[a]\n"),
            "e.ini:4: there is already a section [a] in line 2");
  EXPECT_THAT(error_of("[a]\nnp = 2\n"), HasSubstr("e.ini [a]: no program is given"));
  EXPECT_THAT(error_of("program = t\n[a]\nlr = 1\nlr = 2\n"),
              HasSubstr("e.ini:4: 'lr' is set twice, first in line 3"));
}

TEST(ExperimentFile, DescribesEveryKeyInHelp) {
  for (const std::string& key : experiment_keys()) {
    EXPECT_THAT(experiment_help(), HasSubstr("\n  " + key + " = "));
    // It is not taken for a flag of the program.
    const std::string value = key == "compare" ? "np" : "1";
    const std::string text = key == "program" ? "" : "program = t\nhostfile = h\n";
    for (const std::string& command :
         commands(parse(key == "hostfile" ? "program = t\nhostfile = 1\n"
                                          : fmt::format("{}{} = {}\n", text, key, value))))
      EXPECT_EQ(command.find("--" + key), std::string::npos) << command;
  }
}

TEST(ExperimentFailure, NamesWhatRanOutOfMemory) {
  const auto text = [](int exit_code, const std::string& output) {
    return describe_failure({processes::HowEnded::by_itself, exit_code, 1}, 60, output);
  };
  EXPECT_EQ(text(0, "done\n"), "");
  EXPECT_EQ(describe_failure({processes::HowEnded::timed_out, 143, 61}, 60, ""),
            "not finished after 60 s");
  EXPECT_EQ(text(64, "error: unknown flag\n---\n"), "exit code 64: error: unknown flag");
  EXPECT_EQ(failure_mark(text(64, "error: unknown flag\n")), "failed");
  // Its snapshot is not a result.
  EXPECT_EQ(text(79, "stopped and saved after iteration 7; continue with --resume F\n"),
            "exit code 79: stopped and saved after iteration 7; continue with --resume F");
  EXPECT_EQ(failure_mark(text(69, "error: cuda:0 is out of memory: 9 MiB more\nMPI_ABORT\n")),
            "out of memory");
  EXPECT_EQ(failure_mark(text(69,
                              "error: cpu is out of memory: 9 MiB more; the largest batch that "
                              "fits is --batchsize 96\n")),
            "out of memory (96 a rank fits)");
  EXPECT_EQ(failure_mark(text(70, "rank 2 on h: std::bad_alloc\n")), "out of memory");
  // Another error may contain the name of such a file.
  EXPECT_EQ(failure_mark(text(1, "saving out of memory.txt\nsegmentation fault\n")), "failed");
  EXPECT_EQ(failure_mark(text(137, "")), "killed (out of memory?)");
  EXPECT_EQ(failure_mark(text(137,
                              "mpirun noticed that process rank 1 with PID 0 on node h exited "
                              "on signal 9 (Killed).\n")),
            "killed (out of memory?)");
  // Ranks that are ended because of an error do not count.
  EXPECT_EQ(failure_mark(text(75, "rank 1 on h: stuck\nrank 1 exited on signal 9 (Killed).\n")),
            "failed");
}

// Records as if every run had been done in what `seconds` says.
std::vector<RunRecord> done(const ExperimentPlan& plan,
                            const std::function<double(const RunSettings&)>& seconds) {
  std::vector<RunRecord> records;
  for (const RunSettings& run : plan.runs()) {
    RunRecord record;
    record.settings = run;
    record.command = plan.command(run, "O");
    record.result.emplace();
    record.result->seconds = seconds(run);
    record.result->epochs = 2;
    record.result->iterations = 10;
    record.result->accuracy = 0.5 + 0.1 * static_cast<double>(run.np);
    records.push_back(record);
  }
  return records;
}

TEST(ExperimentTable, ComputesSpeedupFromTheFewestProcesses) {
  const ExperimentPlan plan = parse("program = t\nnp = 1, 2\ncommunicator = flat, auto\n");
  const auto rows = summarise(plan, done(plan, [](const RunSettings& run) {
                                const double base = run.value("communicator") == "flat" ? 9 : 8;
                                return run.np == 1 ? base : base / 1.6;
                              }));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_DOUBLE_EQ(rows[1].speedup.value(), 1);
  EXPECT_DOUBLE_EQ(rows[2].speedup.value(), 1.6);
  EXPECT_DOUBLE_EQ(rows[3].speedup.value(), 1.6);
  EXPECT_DOUBLE_EQ(rows[3].efficiency.value(), 0.8);
  const std::string text = markdown_text(plan, rows, "a machine");
  EXPECT_THAT(text, HasSubstr("| | processes | communicator | time [s] | speed-up | efficiency | "
                              "accuracy |"));
  EXPECT_THAT(text, HasSubstr("| 4 | 2 | auto | 5.00 | 1.60 | 80 % | 0.7000 |"));
  EXPECT_THAT(text, HasSubstr("4. `mpirun -np 2 /bin/t --communicator=auto --out=O`"));
  // Markdown needs 76 characters.
  EXPECT_THAT(markdown_text(plan, rows, "a machine", 76), HasSubstr("| efficiency |"));
  EXPECT_THAT(markdown_text(plan, rows, "a machine", 75),
              HasSubstr("a machine.\n\n"
                        "                            time  speed-\n"
                        "   processes  communicator  [s]   up      efficiency  accuracy\n"
                        "1  1          flat          9.00  1.00    100 %       0.6000\n"));
  EXPECT_THAT(markdown_text(plan, rows, "a machine", 60),
              HasSubstr("\n                         time speed-\n"
                        "  processes communicator [s]  up     efficiency accuracy\n"
                        "1 1         flat         9.00 1.00   100 %      0.6000\n"));
}

TEST(ExperimentTable, WeightsStepsByBatchSize) {
  const ExperimentPlan plan =
      parse("program = t\nbatchsize = 128, 256\nmax-iterations = 10\ncompare = batchsize\n");
  const auto rows = summarise(plan, done(plan, [](const RunSettings& run) {
                                return run.value("batchsize") == "128" ? 10 : 16;
                              }));
  EXPECT_DOUBLE_EQ(rows[0].examples_per_second.value(), 128);
  EXPECT_DOUBLE_EQ(rows[1].examples_per_second.value(), 160);
  EXPECT_DOUBLE_EQ(rows[1].speedup.value(), 1.25);
}

TEST(ExperimentTable, PrefersTheSpeedOfSteadySteps) {
  const ExperimentPlan plan = parse("program = t\nbatchsize = 100\nmax-iterations = 10\n");
  auto records = done(plan, [](const RunSettings&) { return 10; });
  EXPECT_THAT(
      markdown_text(plan, summarise(plan, records), "a machine"),
      HasSubstr("a machine; examples / s over whole runs, including start and evaluation.\n"));
  records[0].result->step_seconds = 0.5;
  const auto rows = summarise(plan, records);
  EXPECT_DOUBLE_EQ(rows[0].examples_per_second.value(), 200);
  EXPECT_THAT(markdown_text(plan, rows, "a machine"),
              HasSubstr("examples / s in the median step, without the first 3 of a run.\n"));
}

// Steps of 4, 3 and 2 s at the start; of 1 s then; the sixth ends an epoch and evaluates.
TEST(TrainingLog, ExcludesFirstAndEvaluatingStepsFromSteadyOnes) {
  const testing::TemporaryFolder folder;
  std::ofstream file(folder / "log");
  file << "[";
  const std::vector<double> elapsed = {4, 7, 9, 10, 11, 20, 21, 22.5};
  for (std::size_t i = 0; i < elapsed.size(); ++i)
    file << fmt::format("{}{{\"iteration\": {}, \"epoch\": {}, \"elapsed_time\": {}}}",
                        i == 0 ? "" : ",", i + 1, i < 5 ? 0 : 1, elapsed[i]);
  file << "]";
  file.close();
  EXPECT_DOUBLE_EQ(read_training_log(folder / "log").step_seconds.value(), 1);
  std::ofstream(folder / "log") << R"([{"iteration": 8, "epoch": 1, "elapsed_time": 22.5}])";
  EXPECT_FALSE(read_training_log(folder / "log").step_seconds.has_value());
}

TEST(ExperimentTable, UsesMediansAndReportsMissingRuns) {
  const ExperimentPlan plan = parse("program = t\nrepeat = 3\nnp = 1, 2\n");
  auto records = done(plan, [](const RunSettings& run) {
    return std::vector{5.0, 100.0, 4.0}.at(static_cast<std::size_t>(run.repeat - 1));
  });
  records[4].result.reset();
  records[4].failure = "exit code 1: a, \"b\"";
  const auto rows = summarise(plan, records);
  EXPECT_DOUBLE_EQ(rows[0].result->seconds, 5);
  EXPECT_DOUBLE_EQ(rows[1].result->seconds, 4.5);
  EXPECT_EQ(rows[1].done, 2);
  EXPECT_THAT(markdown_text(plan, rows, "a machine"),
              HasSubstr("(2 of 3 runs done: exit code 1: a, \"b\")"));
  const std::string csv = csv_text(plan, records);
  EXPECT_THAT(csv, HasSubstr("nodes,np,repeat,seconds,"));
  EXPECT_THAT(csv, HasSubstr("1,2,2,,,,,,,,,,\"exit code 1: a, \"\"b\"\"\",,,,,,0\n"));
}

RunOrigin origin(const std::string& version, const std::string& gpu = "") {
  return {version, "vm", "2 cores", gpu, "/data", 64};
}

TEST(ExperimentTable, NamesIncomparableRows) {
  const ExperimentPlan plan = parse("program = t\nunit = 1, 2, 3\n");
  auto records = done(plan, [](const RunSettings&) { return 1; });
  for (RunRecord& record : records) record.origin = origin("Tasuki 1");
  EXPECT_EQ(warn_of_mixture(summarise(plan, records)), "");
  records[1].origin = origin("Tasuki 2");
  EXPECT_THAT(warn_of_mixture(summarise(plan, records)),
              HasSubstr("warning: rows 1,3 and row 2 were made with different versions"));
  records[0].origin.reset();
  const std::string text = markdown_text(plan, summarise(plan, records), "a machine");
  EXPECT_THAT(text, HasSubstr("**Mixed**"));
  EXPECT_THAT(text, HasSubstr("\n- row 1: not recorded\n"));
  EXPECT_THAT(text, HasSubstr("\n- row 2: Tasuki 2; 2 cores; data in /data\n"));
  EXPECT_THAT(csv_text(plan, records), HasSubstr(",Tasuki 2,vm,2 cores,,/data,0\n"));
  records[1].result.reset();
  records[2].result.reset();
  EXPECT_EQ(warn_of_mixture(summarise(plan, records)), "") << "only one row has a result";
}

TEST(ExperimentTable, MarksRowsWithMoreThreadsThanCores) {
  const ExperimentPlan plan = parse("program = t\nnp = 1, 4\n");
  auto records = done(plan, [](const RunSettings&) { return 1; });
  for (RunRecord& record : records) record.origin = origin("1");
  EXPECT_THAT(markdown_text(plan, summarise(plan, records), "2 cores"), Not(HasSubstr("*")));
  records[1].origin->oversubscribed = true;
  const std::string text = markdown_text(plan, summarise(plan, records), "2 cores");
  EXPECT_THAT(text, HasSubstr("| 1 | 1 |"));
  EXPECT_THAT(text, HasSubstr("| 2 | 4* |"));
  EXPECT_THAT(text, HasSubstr("2 cores. `*`: more computing threads than the machine has cores."));
}

// The first lines of monitor files, and the times that the program wrote at the end.
TEST(ExperimentTable, ShowsLoadOfMonitoredRanks) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "result");
  const ExperimentPlan plan = parse("program = t\n");
  auto records = done(plan, [](const RunSettings&) { return 1; });
  records[0].folder = folder.path();
  EXPECT_THAT(markdown_text(plan, summarise(plan, records), "m"), Not(HasSubstr("load")));
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / "result" / name) << text;
  };
  write("monitor.0.csv", "seconds,cpu_percent,memory_mb\n1,90,100\n2,99,300\n3,,200\n4,9");
  write("monitor.1.0.csv", "seconds,cpu_percent,memory_mb,gpu_percent,gpu_memory_mb\n1,9,1,50,7\n");
  write("monitor.1.1.csv", "seconds,cpu_percent,memory_mb,gpu_percent,gpu_memory_mb\n1,9,1,,8\n");
  write("monitor.1.csv.old", "");
  write("step_times.json",
        R"([{"rank": 0, "worker": 0, "input": 0.001, "forward": 0.002, "backward": 0.003,
             "exchange": 0.004, "update": 0.005, "steps": 3}])");
  EXPECT_THAT(markdown_text(plan, summarise(plan, records), "m"),
              HasSubstr("| row | rank | load [%] | memory [MB] | input wait [ms] | step [ms] |\n"
                        "|-|-|-|-|-|-|\n"
                        "| 1 | 0 | 99 | 200 | 1.00 | 15.00 |\n"
                        "| 1 | 1.0 | 50 | 7 |  |  |\n"
                        "| 1 | 1.1 | 9 | 8 |  |  |\n"));
  for (const std::string number : {"many", "1e999"}) {
    write("monitor.0.csv", ("seconds,cpu_percent,memory_mb\n1," + number + ",100\n").c_str());
    EXPECT_THROW(summarise(plan, records), Error) << number;
  }
}

TEST(ExperimentOrigin, DistinguishesGpus) {
  EXPECT_EQ(group_by_origin({{origin("1")}, {origin("1", "cuda:0 A")}}).size(), 1u);
  const auto groups = group_by_origin({{origin("1", "cuda:0 B")}, {origin("1", "cuda:0 A")}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[1].text, HasSubstr("; cuda:0 A"));
  EXPECT_THAT(group_by_origin({{origin("1"), origin("2")}, {origin("2")}}).back().rows,
              ElementsAre(1, 2));
}

TEST(ExperimentTable, ComparesCutRunsByTheReportedBatch) {
  const ExperimentPlan plan = parse("program = t\nnp = 1, 2\nmax-iterations = 10\n");
  auto records = done(plan, [](const RunSettings& run) { return run.np == 1 ? 10 : 8; });
  const auto without = summarise(plan, records);
  EXPECT_FALSE(without[1].speedup.has_value());
  EXPECT_THAT(
      markdown_text(plan, without, "a machine"),
      HasSubstr("; no speed-up for runs shortened by max-iterations whose batch is not recorded"));
  for (RunRecord& record : records) {
    record.origin = origin("1");
    record.origin->global_batch = 100 * static_cast<double>(record.settings.np);
  }
  EXPECT_DOUBLE_EQ(summarise(plan, records)[1].speedup.value(), 2.5);
}

TEST(ExperimentPlot, ShowsSpeedupOrTime) {
  const ExperimentPlan scaling = parse("program = t\nnp = 1, 2\n");
  const auto ten = [](const RunSettings&) { return 10.0; };
  EXPECT_THAT(gnuplot_script(scaling, summarise(scaling, done(scaling, ten)), "p.svg"),
              HasSubstr("set xlabel \"processes\""));
  const ExperimentPlan names = parse("program = t\ncommunicator = flat, auto\n");
  EXPECT_THAT(gnuplot_script(names, summarise(names, done(names, ten)), "p.png"),
              HasSubstr("set xtics ('communicator flat' 0, 'communicator auto' 1) rotate"));
  const ExperimentPlan odd = parse("program = t\ntitle = it's `odd`\ncommunicator = flat, auto\n");
  const std::string script = gnuplot_script(odd, summarise(odd, done(odd, ten)), "|it's \"p\".svg");
  EXPECT_THAT(script, HasSubstr("set title 'it''s `odd`'\n"));
  EXPECT_THAT(script, HasSubstr("set output '/"));  // a name that begins with | would be a command
  EXPECT_THAT(script, HasSubstr("/|it''s \"p\".svg'\n"));
}

}  // namespace
}  // namespace tasuki::experiment

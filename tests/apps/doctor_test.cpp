// tasuki-doctor finds faults that are planted: each test starts real processes on a machine, or a
// cluster of network namespaces, that has the fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/support/digits.hpp"
#include "tests/support/json.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/programs_of_nobody.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int error_code = 78;

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A script for bash, which ends with `exec "$@"`, before a program.
Words with_script(const std::string& lines, const Words& program) {
  return Words{"bash", "-c", lines + "\nexec \"$@\"", "bash"} + program;
}

class Doctor : public ::testing::Test {
 protected:
  struct Examined {
    Finished job;
    json report;

    // The warnings and errors of a check, as lines.
    std::string faults(const std::string& check) const {
      std::string lines;
      for (const json& each : report.at("checks"))
        if (each.at("check") == check && each.at("mark") != "ok")
          lines += each.at("mark").get<std::string>() + " " + each.at("where").get<std::string>() +
                   ": " + each.at("found").get<std::string>() + "; " +
                   each.at("remedy").get<std::string>() + "\n";
      return lines;
    }
  };

  // Words that start the doctor, which prints JSON.
  static Examined examine(const Words& words) {
    Examined examined{run_program(words, 120), {}};
    const std::string& out = examined.job.out;
    // What a launcher prints may come first.
    const auto begin = out.find("{\n");
    EXPECT_NE(begin, std::string::npos) << examined.job.all();
    if (begin != std::string::npos)
      examined.report = json_from(out.substr(begin, out.rfind('}') + 1 - begin));
    return examined;
  }
  static Words doctor(const Words& flags = {}) {
    return Words{DOCTOR, "--json", "--quick"} + flags;
  }

  // Words in namespaces of their own, after the lines of a script; as root in them.
  static Words in_own_mounts(const std::string& lines, const Words& words) {
    Words unshare = {"unshare", "--mount"};
    if (::geteuid() != 0) unshare = unshare + Words{"--user", "--map-root-user"};
    return unshare + with_script(lines, words);
  }
  static std::string why_no_mounts() {
    const Finished tried = run_program(in_own_mounts("mount -t tmpfs tmpfs /mnt", {"true"}));
    return tried.exit_code == 0 ? "" : "no mounts of its own here: " + tried.all();
  }

  // On nodes of one rank each; a script runs before each rank.
  Examined examine_nodes(const Words& options, const std::string& lines, const Words& program) {
    Words words = Words{CLUSTER_RUN} + options + Words{"--"} + with_script(lines, program);
    const Finished tried = run_program(Words{CLUSTER_RUN} + options + Words{"--", "true"});
    if (tried.exit_code == 77) {
      reason_to_skip = tried.all();
      return {};
    }
    return examine(words);
  }

  std::string reason_to_skip;
  TemporaryFolder folder;
};

std::string first_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) return std::to_string(cpu);
  return "0";
}

TEST_F(Doctor, LooksAtEverythingInLessThanTenSeconds) {
  const std::string out = folder / "result";
  const Examined examined = examine({DOCTOR, "--json", "--out", out});
  EXPECT_LT(examined.job.seconds, 10 * patience());
  std::set<std::string> checks;
  for (const json& each : examined.report.at("checks")) {
    checks.insert(each.at("check"));
    EXPECT_EQ(each.at("remedy") == "", each.at("mark") == "ok") << each;
  }
  EXPECT_EQ(checks, (std::set<std::string>{"Tasuki", "MPI", "libraries", "GPUs", "GPU libraries",
                                           "processors", "binding", "load", "memory",
                                           "shared memory", "limits", "environment", "host names",
                                           "network", "data", "clocks", "links", "output"}));
  EXPECT_EQ(examined.job.exit_code == 0, examined.report.at("errors") == 0);
  // The folder need not be there, and is not made.
  EXPECT_EQ(count_of(examined.faults("output"), "error"), 0) << examined.faults("output");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Doctor, SaysTheSameInLines) {
  const Finished job = run_program(mpirun(2, {DOCTOR, "--out", folder.path().string()}));
  EXPECT_EQ(job.exit_code, 0) << job.all();
  EXPECT_THAT(job.out,
              AllOf(HasSubstr("tasuki-doctor: 2 ranks on "), HasSubstr("ok       Tasuki: "),
                    HasSubstr("  links"), HasSubstr("  output"), HasSubstr("no errors, ")));
  EXPECT_EQ(count_of(job.out, "\n"),
            count_of(job.out, "\nok       ") + count_of(job.out, "\nwarning  ") + 2)
      << job.out;
}

TEST_F(Doctor, FindsSharedMemoryThatIsTooSmall) {
  if (const std::string reason = why_no_mounts(); !reason.empty()) GTEST_SKIP() << reason;
  for (const int ranks : {1, 2}) {
    const Examined examined =
        examine(in_own_mounts("mount -t tmpfs -o size=1m tmpfs /dev/shm", mpirun(ranks, doctor())));
    EXPECT_EQ(examined.job.exit_code, error_code);
    EXPECT_THAT(examined.faults("shared memory"),
                AllOf(HasSubstr("error"), HasSubstr("of 1.0 MiB free in /dev/shm"),
                      HasSubstr("No space left on device"), HasSubstr("--shm-size")));
  }
  const Examined narrow =
      examine(in_own_mounts("mount -t tmpfs -o size=7m tmpfs /dev/shm", doctor()));
  EXPECT_EQ(narrow.job.exit_code, 0);
  EXPECT_THAT(narrow.faults("shared memory"), HasSubstr("1 rank of this MPI may need 8.0 MiB"));
}

TEST_F(Doctor, FindsThatThereIsNoSharedMemory) {
  if (const std::string reason = why_no_mounts(); !reason.empty()) GTEST_SKIP() << reason;
  const std::string dev = folder / "dev";
  const std::string empty_dev =
      "mkdir -p '" + dev + "' && mount -t tmpfs tmpfs '" + dev + "' && cd '" + dev +
      "' && for each in null zero urandom; do : >$each; mount --bind /dev/$each $each; done && "
      "mount --move . /dev && cd /";
  const Examined examined = examine(in_own_mounts(empty_dev, doctor()));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("shared memory"),
              AllOf(HasSubstr("there is no /dev/shm"), HasSubstr("mount -t tmpfs")));
}

TEST_F(Doctor, FindsTwoRanksOnOneCore) {
  const Examined crowded = examine(mpirun(2, Words{"taskset", "-c", first_cpu()} + doctor()));
  EXPECT_EQ(crowded.job.exit_code, 0);
  EXPECT_THAT(
      crowded.faults("binding"),
      AllOf(HasSubstr("warning"), HasSubstr("ranks 0 and 1 are bound to CPU " + first_cpu()),
            HasSubstr("mpirun --bind-to none")));
  const Examined unbound = examine(mpirun(2, doctor()));
  EXPECT_EQ(count_of(unbound.faults("binding"), "are bound to CPU"), 0);
}

TEST_F(Doctor, FindsTwoRanksThatOpenMpiBindsToOneCore) {
  if (has_hydra()) GTEST_SKIP() << "--bind-to cpulist is Open MPI's";
  const Examined crowded = examine(
      Words{"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "-np",
            "2", "--oversubscribe", "--bind-to", "cpulist", "--cpu-list", first_cpu()} +
      doctor());
  EXPECT_THAT(crowded.faults("binding"), HasSubstr("ranks 0 and 1 are bound to CPU "));
}

// On its way from node3 to node1 everything passes through a slow link.
TEST_F(Doctor, FindsTheSlowPairOfHosts) {
  const std::string slow_way = R"sh(
if [ "$(hostname)" = node3 ]; then
  tc qdisc add dev eth1 root tbf rate 20mbit burst 64kb latency 50ms &&
    ip route add 10.231.7.1/32 dev eth1 || exit 1
fi
)sh";
  const Examined examined = examine_nodes(
      {"--slots", "1,1,1,1", "--networks", "2", "--rate", "1gbit"}, slow_way, {DOCTOR, "--json"});
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  EXPECT_EQ(examined.job.exit_code, 0) << examined.job.all();
  EXPECT_THAT(examined.faults("links"),
              AllOf(HasSubstr("warning node1, node3: between node1 and node3: "),
                    HasSubstr("cables, ports")));
  // Other pairs may be slow, too, where other work takes the cores, but not as slow.
  json slowest;
  for (const json& link : examined.report.at("links"))
    if (slowest.is_null() || link.at("bytes_per_second") < slowest.at("bytes_per_second"))
      slowest = link;
  EXPECT_EQ(slowest.at("ranks"), (std::vector<int>{0, 2})) << examined.report.at("links");
  EXPECT_EQ(examined.report.at("links").size(), 6U);
  EXPECT_EQ(examined.report.at("clocks").size(), 3U);
  for (const json& clock : examined.report.at("clocks"))  // of one machine
    EXPECT_LE(std::abs(clock.at("offset").get<double>()), clock.at("uncertainty").get<double>());
}

TEST_F(Doctor, EndsWhereTwoHostsDoNotAnswerEachOther) {
  const std::string cut = R"sh(
if [ "$(hostname)" = node3 ]; then
  iptables -w -A INPUT -s 10.231.7.2 -j DROP && iptables -w -A OUTPUT -d 10.231.7.2 -j DROP ||
    exit 77
fi
)sh";
  // Of four nodes, the second and the third exchange no message before they are to talk.
  const Words words = Words{CLUSTER_RUN, "--slots", "1,1,1,1", "--"} + with_script(cut, {DOCTOR});
  const Finished job = run_program(words, 120);
  if (job.exit_code == 77) GTEST_SKIP() << job.all();
  constexpr int failed_while_running = 74;
  EXPECT_EQ(job.exit_code, failed_while_running) << job.all();
  EXPECT_THAT(job.out, HasSubstr("ok       memory"));  // what is known is said before
  EXPECT_THAT(job.err, ::testing::AnyOf(HasSubstr("node2 and node3 do not get each other's"),
                                        HasSubstr("node3 and node2 do not get each other's")));
}

TEST_F(Doctor, FindsDataThatAHostDoesNotSee) {
  const std::string data = folder / "data";
  write_digits(data, 10, 10);
  const std::string hide =
      "if [ \"$(hostname)\" = node2 ]; then mount -t tmpfs tmpfs '" + data + "' || exit 1; fi";
  const Examined hidden =
      examine_nodes({"--slots", "1,1"}, hide, doctor({"--data", data, "--out", data}));
  if (!reason_to_skip.empty()) GTEST_SKIP() << reason_to_skip;
  EXPECT_EQ(hidden.job.exit_code, 0) << hidden.job.all();
  EXPECT_THAT(
      hidden.faults("data"),
      AllOf(HasSubstr("warning node2: --data: " + data + " has no files"), HasSubstr("NFS")));
  EXPECT_THAT(hidden.faults("output"), HasSubstr("warning node2: does not see " + data));

  const std::string change = hide + "\n[ \"$(hostname)\" = node1 ] || echo >'" + data + "/other'";
  const Examined changed = examine_nodes({"--slots", "1,1"}, change, doctor({"--data", data}));
  EXPECT_THAT(changed.faults("data"), AllOf(HasSubstr("warning node2"),
                                            HasSubstr("1 file, 1 bytes"), HasSubstr("4 files")));
}

TEST_F(Doctor, FindsDataThatMayNotBeRead) {
  const std::string data = folder / "data";
  write_digits(data, 10, 10);
  give_to_nobody(folder.path());
  if (const std::string reason = why_nobody_cannot_run(DOCTOR); !reason.empty())
    GTEST_SKIP() << reason;
  const std::string file = data + "/train-images-idx3-ubyte";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const Examined examined = examine(words_of_nobody(doctor({"--data", data})));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("data"),
              AllOf(HasSubstr("error"), HasSubstr(file), HasSubstr("Permission denied")));

  const Examined missing = examine(doctor({"--data", folder / "nowhere"}));
  EXPECT_EQ(missing.job.exit_code, error_code);
  EXPECT_THAT(missing.faults("data"), HasSubstr("nowhere: No such file or directory"));
}

TEST_F(Doctor, LooksWhereProgramsLook) {
  write_digits(folder / "mnist", 10, 10);
  const Examined examined =
      examine(Words{"env", "TASUKI_DATA=" + folder.path().string()} + doctor());
  EXPECT_EQ(examined.faults("data"), "");
  std::string found;
  for (const json& each : examined.report.at("checks"))
    if (each.at("check") == "data") found += each.at("found").get<std::string>();
  EXPECT_THAT(found, HasSubstr("mnist in " + folder.path().string() + "/mnist (4 files"));
}

TEST_F(Doctor, FindsThatOneRankMayOpenFewFiles) {
  const std::string narrow = "[ $" + rank_variable() + " != 1 ] || ulimit -S -n 16";
  const Examined examined = examine(mpirun(2, with_script(narrow, doctor())));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("limits"),
              AllOf(HasSubstr("error rank 1 on "), HasSubstr("at most 16 open files (ulimit -n)"),
                    HasSubstr("ulimit -n 4096")));
}

TEST_F(Doctor, SaysWhyMpiCannotStart) {
  const Finished job = run_program(with_script("ulimit -n 16", doctor()));
  EXPECT_EQ(job.exit_code, error_code);
  EXPECT_THAT(job.err,
              AllOf(HasSubstr("at most 16 open files (ulimit -n)"), HasSubstr("ulimit -n 4096")));
  EXPECT_EQ(count_of(job.err, "\n"), 1) << job.err;
}

TEST_F(Doctor, FindsLittleMemoryAndSmallFiles) {
  const Examined examined = examine(with_script("ulimit -v 750000; ulimit -f 102400", doctor()));
  EXPECT_THAT(examined.faults("memory"), HasSubstr("of 732 MiB free, by a limit"));
  EXPECT_THAT(examined.faults("limits"),
              AllOf(HasSubstr("at most 104857600 bytes in a file (ulimit -f)"),
                    HasSubstr("ulimit -f unlimited")));
}

TEST_F(Doctor, FindsAControlGroupThatAllowsHalfACpu) {
  const std::string group = "tasuki-doctor-" + std::to_string(::getpid());
  const std::string version_1 = "/sys/fs/cgroup/cpu/" + group,
                    version_2 = "/sys/fs/cgroup/" + group;
  const std::string limit = "{ mkdir " + version_1 + " && echo 50000 >" + version_1 +
                            "/cpu.cfs_quota_us && echo $$ >" + version_1 +
                            "/cgroup.procs; } || { rmdir " + version_1 + "; mkdir " + version_2 +
                            " && echo 50000 100000 >" + version_2 + "/cpu.max && echo $$ >" +
                            version_2 + "/cgroup.procs; }";
  const auto clean = [&] {
    run_program({"rmdir", version_1});
    run_program({"rmdir", version_2});
  };
  const Finished tried = run_program(with_script(limit + " || exit 77", {"true"}));
  clean();
  if (tried.exit_code != 0) GTEST_SKIP() << "no control group can be made here: " << tried.all();
  const Examined examined = examine(with_script(limit, doctor()));
  clean();
  EXPECT_THAT(examined.faults("processors"),
              AllOf(HasSubstr("a control group allows 0.5 of "), HasSubstr("CPUQuota")));
}

TEST_F(Doctor, FindsAnotherEnvironment) {
  const std::string set =
      "export TASUKI_DATA= OMP_NUM_THREADS=$((1 + " + rank_variable() + " / 2))";
  const Examined examined = examine(mpirun(3, with_script(set, doctor())));
  EXPECT_THAT(
      examined.faults("environment"),
      AllOf(HasSubstr("warning rank 2 on "), HasSubstr("OMP_NUM_THREADS is 2, and 1 on rank 0"),
            HasSubstr("mpirun -x OMP_NUM_THREADS")));
  EXPECT_EQ(count_of(examined.faults("environment"), "\n"), 1) << examined.faults("environment");
}

// A copy of the program with one bit of its build id changed, which is another build.
TEST_F(Doctor, FindsAnotherBuild) {
  const std::string other = folder / "tasuki-doctor";
  std::ifstream file(DOCTOR, std::ios::binary);
  std::string program{std::istreambuf_iterator<char>(file), {}};
  // The note's sizes (of the name, of the id), its type, its name.
  const auto note = program.find(std::string("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16));
  if (note == std::string::npos) GTEST_SKIP() << "the linker here writes no build id of 20 bytes";
  program[note + 16] ^= 1;
  std::ofstream(other, std::ios::binary) << program;
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  const std::string choose =
      "[ $" + rank_variable() + " != 1 ] || { shift; set -- '" + other + "' \"$@\"; }";
  const Examined examined = examine(mpirun(2, with_script(choose, doctor())));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("Tasuki"),
              AllOf(HasSubstr("error rank 1 on "), HasSubstr("another build than on rank 0"),
                    HasSubstr("tasuki-doctor, build "), HasSubstr("same path on all hosts")));
}

TEST_F(Doctor, FindsOutputThatCannotBeWritten) {
  std::ofstream(folder / "file") << "mine";
  const std::string out = folder / "file/result";
  const Examined examined = examine(doctor({"--out", out}));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("output"), AllOf(HasSubstr("error"), HasSubstr(out),
                                               HasSubstr("Not a directory"), HasSubstr("--out")));

  if (const std::string reason = why_nobody_cannot_run(DOCTOR); !reason.empty())
    GTEST_SKIP() << reason;
  const std::string locked = folder / "locked";
  std::filesystem::create_directory(locked);
  std::filesystem::permissions(locked, std::filesystem::perms::owner_read);
  give_to_nobody(folder.path());
  const Examined forbidden = examine(words_of_nobody(doctor({"--out", locked})));
  EXPECT_EQ(forbidden.job.exit_code, error_code);
  EXPECT_THAT(forbidden.faults("output"), HasSubstr("Permission denied"));
}

TEST_F(Doctor, FindsAFullDisk) {
  if (const std::string reason = why_no_mounts(); !reason.empty()) GTEST_SKIP() << reason;
  const std::string disk = folder / "disk";
  std::filesystem::create_directory(disk);
  const std::string fill = "mount -t tmpfs -o size=64k tmpfs '" + disk +
                           "' && head -c 64k /dev/zero >'" + disk + "/full'";
  const Examined examined = examine(in_own_mounts(fill, doctor({"--out", disk})));
  EXPECT_EQ(examined.job.exit_code, error_code);
  EXPECT_THAT(examined.faults("output"), HasSubstr("No space left on device"));
}

// With the simulated GPU and its driver (ctest -R simulated_gpu.doctor).
TEST_F(Doctor, FindsMoreRanksThanGpus) {
  const Examined enough = examine(doctor());
  EXPECT_EQ(enough.faults("GPUs"), "");
  const Examined examined = examine(mpirun(2, doctor()));
  EXPECT_EQ(examined.job.exit_code, 0);
  EXPECT_THAT(examined.faults("GPUs"),
              AllOf(HasSubstr("warning "), HasSubstr("1 x "),
                    HasSubstr(" for 2 ranks; start 1 rank there"), HasSubstr("--share-gpu")));
}

TEST_F(Doctor, TakesTheFlagsOfRankZero) {
  const std::string drop = "[ $" + rank_variable() + " = 0 ] || set -- \"$1\"";
  const Examined examined = examine(mpirun(2, with_script(drop, doctor())));
  EXPECT_EQ(examined.job.exit_code, 0) << examined.job.all();
  EXPECT_EQ(run_program({DOCTOR, "--nonsense"}).exit_code, 64);
}

}  // namespace
}  // namespace tasuki::testing

// Damage to generations, and what goes wrong while one is written: there is a whole generation or
// none, and the one before is used.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>

#include "core/file.hpp"
#include "tests/support/no_more_files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/checkpoints/retention.hpp"
#include "written_generations.hpp"

namespace {
int removals_until_killed = -1;  // never

void count_removal() {
  if (removals_until_killed >= 0 && removals_until_killed-- == 0) std::raise(SIGKILL);
}
}  // namespace

// In the C library's place.
extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  count_removal();
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}
extern "C" int remove(const char* path) noexcept {
  count_removal();
  if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0) return 0;
  if (errno != EISDIR) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::Each;
using ::testing::HasSubstr;

// The newest one that can be read whole, as a run that resumes looks for it.
fs::path newest_intact(const fs::path& out) {
  for (const SavedState& each : saved_states_in(out)) {
    try {
      const Generation generation(each.path);
      for (const std::string& name : generation.names()) generation.read(name);
      return each.path;
    } catch (const Error& error) {
      EXPECT_TRUE(is_damage(error)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(each.path.string()));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  return {};
}

// Two writers' generation 10, and 20 in `folder`.
class DamagedGeneration : public ::testing::Test {
 protected:
  DamagedGeneration() {
    for (const std::int64_t iteration : {10, 20}) {
      with_writers(2, [&](const Writers& writers) {
        GenerationWriter writer({.out = out.path(), .iteration = iteration, .epoch = 1, .parts = 1},
                                writers);
        GenerationShare share;
        const bool is_first = writers.index() == 0;
        if (is_first) share.state = state_from(static_cast<float>(iteration));
        share.pieces = {{{"updater/optimizer:main/l1/W/m", ramp(Shape{15}, 7)},
                         is_first ? 0 : 15,
                         Shape{6, 5}}};
        writer.write(share);
      });
    }
    for (const auto& file : fs::directory_iterator(folder)) {
      files.push_back(file.path());
      contents.push_back(read_file(file.path()));
      total += contents.back().size();
    }
  }
  // Restores a file that was cut or has one byte of another value. (Files that are written anew are
  // slow: the system then waits for the disk.)
  void restore(std::size_t file, std::size_t from) const {
    std::fstream stream(files[file], std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(from));
    stream << contents[file].substr(from);
  }
  void flip(const fs::path& file, std::size_t byte, int bit) const {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(static_cast<std::streamoff>(byte));
    const int value = stream.get();
    stream.seekp(static_cast<std::streamoff>(byte));
    stream.put(static_cast<char>(value ^ 1 << bit));
  }
  // A file and a byte of it, each byte of all files as likely as the others.
  std::pair<std::size_t, std::size_t> draw() {
    std::size_t byte = std::uniform_int_distribution<std::size_t>(0, total - 1)(random);
    std::size_t file = 0;
    while (byte >= contents[file].size()) byte -= contents[file++].size();
    return {file, byte};
  }
  // Counted for the fault suite.
  void expect_refusal(const std::string& what) {
    ASSERT_EQ(newest_intact(out.path()), out / "checkpoints/iter_10") << what;
    RecordProperty("refused", ++refused);
  }

  TemporaryFolder out;
  fs::path folder = out / "checkpoints/iter_20";
  std::vector<fs::path> files;
  std::vector<std::string> contents;
  std::size_t total = 0;
  int refused = 0;
  std::mt19937 random{20};
};

TEST_F(DamagedGeneration, DetectsEachOf1000FlippedBits) {
  ASSERT_EQ(files.size(), 4U);
  ASSERT_EQ(newest_intact(out.path()), folder);
  for (int i = 0; i < 1000; ++i) {
    const auto [file, byte] = draw();
    flip(files[file], byte, static_cast<int>(random() % 8));
    expect_refusal(fmt::format("byte {} of {}", byte, files[file].string()));
    restore(file, byte);
  }
  EXPECT_EQ(newest_intact(out.path()), folder);
}

TEST_F(DamagedGeneration, DetectsEachOf200Truncations) {
  for (int i = 0; i < 200; ++i) {
    const auto [file, bytes] = draw();
    fs::resize_file(files[file], bytes);
    expect_refusal(fmt::format("{} bytes of {}", bytes, files[file].string()));
    restore(file, bytes);
  }
  EXPECT_EQ(newest_intact(out.path()), folder);
  for (std::size_t file = 0; file < files.size(); ++file)
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, contents[file].size() - 1}) {
      fs::resize_file(files[file], bytes);
      expect_refusal(fmt::format("{} bytes of {}", bytes, files[file].string()));
      restore(file, bytes);
      fs::resize_file(files[file], contents[file].size() + 1);
      expect_refusal("a byte more of " + files[file].string());
      fs::resize_file(files[file], contents[file].size());
    }
}

TEST_F(DamagedGeneration, IsRejectedForMissingExtraOrForeignFiles) {
  for (std::size_t file = 0; file < files.size(); ++file) {
    const std::string name = files[file].filename().string();
    fs::remove(files[file]);
    expect_refusal("without " + name);
    fs::create_directory(files[file]);
    expect_refusal("a folder in place of " + name);
    fs::remove(files[file]);
    // The pieces of both saves are equal, and so are their files.
    fs::copy_file(out / "checkpoints/iter_10" / name, files[file]);
    if (!name.starts_with("optimizer")) expect_refusal("the other save's " + name);
    std::ofstream(files[file], std::ios::binary) << contents[file];
  }
  std::ofstream(folder / "optimizer.2.npz") << "x";
  expect_refusal("with a file more");
  fs::remove(folder / "optimizer.2.npz");
  std::ofstream(folder / ".nfs0001") << "x";
  EXPECT_EQ(newest_intact(out.path()), folder) << "hidden files do not count";
}

TEST_F(DamagedGeneration, ExplainsTheDamage) {
  const auto refusal = [&] { return error_of([&] { const Generation read(folder); }); };
  const fs::path state = folder / "state.npz";
  const std::uintmax_t bytes = fs::file_size(state);
  const std::size_t among_weights = read_file(state).find("NUMPY") + 140;
  flip(state, among_weights, 0);
  EXPECT_EQ(refusal(), state.string() + " is damaged: its hash does not match its contents");
  fs::resize_file(state, 100);
  EXPECT_EQ(refusal(),
            fmt::format("{} is damaged: it has 100 bytes in place of {}", state.string(), bytes));
  fs::remove(state);
  EXPECT_THAT(refusal(), HasSubstr(state.string() + " is missing: No such file"));
  fs::remove(folder / manifest_name);
  EXPECT_THAT(refusal(), HasSubstr("manifest.json: "));
  expect_error(ErrorKind::missing, {"iter_30: no such folder"},
               [&] { const Generation none(out / "checkpoints/iter_30"); });
}

// It may be intact, unlike those that are damaged.
TEST_F(DamagedGeneration, ExcludesUnreadableGenerations) {
  const auto error = [&](const auto& work) {
    const NoMoreFiles none;
    return caught(work);
  };
  const auto expect_io = [&](const std::optional<Error>& found, const fs::path& path) {
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind(), ErrorKind::io);
    EXPECT_FALSE(is_damage(*found));
    EXPECT_THAT(found->what(), HasSubstr(path.string() + ": "));
    EXPECT_THAT(found->what(), HasSubstr("Too many open files"));
  };
  expect_io(error([&] { const Generation none(folder); }), folder / manifest_name);
  expect_io(error([&] { const NpzFile none(folder / "state.npz"); }), folder / "state.npz");
  expect_io(error([&] { saved_states_in(out.path()); }), out / checkpoints_name);
  expect_io(error([&] { find_generation(out.path(), "x"); }), out / checkpoints_name);
  std::ofstream(out / abandoned_name) << "checkpoints/iter_20\n";
  expect_io(error([&] { abandoned_in(out.path()); }), out / abandoned_name);
  expect_io(error([&] { read_latest(out.path()); }), out / latest_name);
}

// While it is open: the disk gives other bytes than when it was checked.
TEST_F(DamagedGeneration, IsDetectedWhenAnArrayIsRead) {
  GenerationWriter writer({.out = out.path(), .iteration = 30, .epoch = 1, .parts = 1});
  const fs::path large = writer.write({"", {{"x", ramp(Shape{100'000}, 0)}}, {}});
  const Generation generation(large);
  flip(large / "state.npz", 200'000, 3);
  expect_error(ErrorKind::data, {"x in ", "state.npz is damaged"}, [&] { generation.read("x"); });
}

// The exit status of a child that does this.
template <class Work>
int status_of_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(KilledWriter, LeavesNewGenerationWholeOrAbsent) {
  constexpr int steps = 5;
  for (int done = 0; done <= steps; ++done) {
    const TemporaryFolder out;
    write_alone(out.path(), 10, 1);
    const int status = status_of_child([&] {
      GenerationWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1});
      if (done > 0) writer.make_folder();
      if (done > 1) writer.write_files({"", state_from(2), {}});
      if (done > 2) writer.write_manifest();
      if (done > 3) writer.publish();
      if (done > 4) writer.name_latest();
      std::raise(SIGKILL);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    const bool is_there = done > 3;
    EXPECT_EQ(generations_in(out.path()).size(), is_there ? 2U : 1U) << done;
    EXPECT_EQ(unfinished_generations_in(out.path()).size(), done > 0 && !is_there ? 1U : 0U);
    EXPECT_EQ(read_latest(out.path()), done > 4 ? "checkpoints/iter_20" : "checkpoints/iter_10");
    expect_state(out / "checkpoints/iter_10", 1);
    if (is_there) expect_state(out / "checkpoints/iter_20", 2);
    EXPECT_EQ(newest_intact(out.path()).filename(), is_there ? "iter_20" : "iter_10")
        << "it is not taken, although it is complete";
    // The next run takes the same name, and nothing of the killed one remains.
    const fs::path next = write_alone(out.path(), 20, 3);
    EXPECT_EQ(next.filename(), is_there ? "iter_20-2" : "iter_20");
    expect_state(next, 3);
    EXPECT_TRUE(unfinished_generations_in(out.path()).empty());
  }
}

// Whatever comes first in the folder.
TEST(KilledRemoval, LeavesFilesForTheNextRunToRemove) {
  int killed = 0;
  for (bool is_killed = true; is_killed; killed += is_killed) {
    const TemporaryFolder out;
    const fs::path generation = write_alone(out.path(), 10, 1);
    const int status = status_of_child([&] {
      removals_until_killed = killed;
      remove_generation(generation);
      _exit(0);
    });
    is_killed = WIFSIGNALED(status);
    EXPECT_EQ(unfinished_generations_in(out.path()).size(), is_killed ? 1U : 0U) << killed;
    remove_unfinished_generations(out.path());
    EXPECT_TRUE(names_in(out / checkpoints_name).empty()) << killed;
  }
  EXPECT_EQ(killed, 3) << "state.npz, manifest.json and the folder";
}

// A run goes back from 30 to 10, with or without another generation that it left being removed
// meanwhile, and is killed in its first save.
TEST(KilledWriter, PutsAbandonedGenerationsLastAfterGoingBack) {
  for (const bool takes_a_name_again : {false, true})
    for (const bool is_published : {false, true}) {
      const TemporaryFolder out;
      for (const int iteration : {10, 20, 30})
        write_alone(out.path(), iteration, static_cast<float>(iteration));
      start_course(out.path(), out / "checkpoints/iter_10");
      if (takes_a_name_again) remove_generation(out / "checkpoints/iter_20");
      const std::int64_t next = takes_a_name_again ? 20 : 15;
      const int status = status_of_child([&] {
        GenerationWriter writer({.out = out.path(), .iteration = next, .epoch = 1, .parts = 1});
        writer.make_folder();
        writer.write_files({"", state_from(1), {}});
        writer.write_manifest();
        if (is_published) writer.publish();
      });
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(read_latest(out.path()), "checkpoints/iter_10");
      EXPECT_EQ(iteration_of(newest_intact(out.path())), is_published ? next : 10);
    }
}

// The run knows nothing of what is in its folder.
TEST(KilledWriter, PutsOlderRunsGenerationsLastInANewRun) {
  const TemporaryFolder out;
  write_alone(out.path(), 30, 1);
  start_course(out.path(), "");
  status_of_child([&] {
    GenerationWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1});
    writer.make_folder();
    writer.write_files({"", state_from(2), {}});
    writer.write_manifest();
    writer.publish();
  });
  EXPECT_EQ(newest_intact(out.path()).filename(), "iter_20");
}

// At any moment, between steps or in one.
TEST(KilledWriter, LeavesOnlyWholeGenerations) {
  const TemporaryFolder out;
  write_alone(out.path(), 0, 0);
  std::mt19937 random{7};
  std::int64_t next = 1;
  int kills = 0;
  for (; next < 15 && kills < 200; ++kills) {
    const pid_t child = fork();
    if (child == 0)
      for (std::int64_t iteration = next;; ++iteration) {
        const fs::path saved = write_alone(out.path(), iteration, static_cast<float>(iteration));
        remove_old_generations(out.path(), saved, 3);
      }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::vector<GenerationName> found = generations_in(out.path());
    ASSERT_FALSE(found.empty());
    for (const GenerationName& name : found)
      expect_state(generation_folder(out.path(), name), static_cast<float>(name.iteration));
    EXPECT_TRUE(fs::exists(out.path() / read_latest(out.path()).value()));
    EXPECT_GE(found.front().iteration, next - 1);
    next = found.front().iteration + 1;
  }
  EXPECT_LT(kills, 200);
}

// Nothing but generation 10 and what names it.
void expect_only_the_older_one(const fs::path& out) {
  EXPECT_EQ(generations_in(out), (std::vector<GenerationName>{{10, 1}}));
  expect_state(out / "checkpoints/iter_10", 1);
  EXPECT_EQ(read_latest(out), "checkpoints/iter_10");
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(out / "checkpoints")) entries += entry.exists();
  EXPECT_EQ(entries, 1U);
}

TEST(FullDisk, KeepsOlderGenerations) {
  std::signal(SIGXFSZ, SIG_IGN);
  const TemporaryFolder out;
  write_alone(out.path(), 10, 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {0, 1, 100, 1000}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto error = caught([&] { write_alone(out.path(), 20, 2); });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_TRUE(error) << limit;
    EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
    EXPECT_THAT(error->what(),
                HasSubstr((out / "checkpoints/iter_20/state.npz").string() + ": File too large"));
    expect_only_the_older_one(out.path());
  }
  write_alone(out.path(), 20, 2);
  expect_state(out / "checkpoints/iter_20", 2);
}

TEST(FullDisk, KeepsOlderGenerationsOnARealFileSystem) {
  const TemporaryFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "file systems can be mounted as root only: " << std::strerror(errno);
  fs::create_directory(folder / "out");
  write_alone(folder / "out", 10, 1);
  const auto error = caught([&] {
    GenerationWriter writer({.out = folder / "out", .iteration = 20, .epoch = 1, .parts = 1});
    writer.write({"", {{"x", ramp(Shape{100'000}, 0)}}, {}});
  });
  expect_only_the_older_one(folder / "out");
  write_alone(folder / "out", 20, 2);
  expect_state(folder / "out/checkpoints/iter_20", 2);
  EXPECT_EQ(umount(folder.path().c_str()), 0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
  EXPECT_THAT(error->what(), ::testing::ContainsRegex(
                                 "state.npz: No space left on device; it needs 400[0-9]{3} bytes, "
                                 "and [0-9]{5} are free$"));
}

TEST(WriterFailure, IsSharedByAll) {
  const TemporaryFolder out;
  write_alone(out.path(), 10, 1);
  // Writer 2's file cannot be written, before or after those of the others.
  const auto errors = with_writers(3, [&](const Writers& writers) {
    GenerationWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1}, writers);
    GenerationShare share;
    if (writers.index() == 0) share.state = state_from(2);
    if (writers.index() == 2) share.part = ".2";
    if (writers.index() == 2) share.state = {{"twice", ramp({2}, 0)}, {"twice", ramp({2}, 0)}};
    EXPECT_EQ(caught([&] { writer.write(share); })->scope(), ErrorScope::every_rank);
    writer.write(share);
  });
  EXPECT_THAT(errors, Each(HasSubstr("twice is twice among the arrays")));
  expect_only_the_older_one(out.path());
}

TEST(GenerationFolder, IsAnErrorIfRemovedMeanwhile) {
  for (const char* const gone : {"", "checkpoints", "the unfinished one"})
    for (int moment = 0; moment < 4; ++moment) {
      const TemporaryFolder folder;
      const fs::path out = folder / "out";
      fs::create_directory(out);
      const auto error = caught([&] {
        GenerationWriter writer({.out = out, .iteration = 20, .epoch = 1, .parts = 1});
        const auto remove_at = [&](int now) {
          if (moment != now) return;
          if (std::string_view(gone) != "the unfinished one")
            fs::remove_all(out / gone);
          else if (now > 0)
            fs::remove_all(out / checkpoints_name / names_in(out / checkpoints_name).front());
        };
        remove_at(0);
        writer.make_folder();
        remove_at(1);
        writer.write_files({"", state_from(2), {}});
        remove_at(2);
        writer.write_manifest();
        remove_at(3);
        writer.publish();
      });
      // Only the output folder itself is not made here.
      ASSERT_EQ(error.has_value(), moment > 0 || *gone == '\0') << gone << " at " << moment;
      if (!error) continue;
      EXPECT_EQ(error->kind(), ErrorKind::cannot_write) << error->what();
      EXPECT_EQ(fs::exists(out), *gone != '\0');
      EXPECT_TRUE(generations_in(out).empty());
    }
}

}  // namespace
}  // namespace tasuki

// Damage to checkpoints: it is detected, and the one before is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "core/file.hpp"
#include "tests/support/no_more_files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "written_checkpoints.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::HasSubstr;

// Two writers' checkpoint 10, and 20 in `folder`.
class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() {
    for (const std::int64_t iteration : {10, 20}) {
      with_writers(2, [&](const Writers& writers) {
        CheckpointWriter writer({.out = out.path(), .iteration = iteration, .epoch = 1, .parts = 1},
                                writers);
        CheckpointArrays arrays;
        const bool is_first = writers.index() == 0;
        if (is_first) arrays.state = state_from(static_cast<float>(iteration));
        arrays.pieces = {{{"updater/optimizer:main/l1/W/m", ramp(Shape{15}, 7)},
                          is_first ? 0 : 15,
                          Shape{6, 5}}};
        writer.write(arrays);
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

TEST_F(DamagedCheckpoint, DetectsEachOf1000FlippedBits) {
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

TEST_F(DamagedCheckpoint, DetectsEachOf200Truncations) {
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

TEST_F(DamagedCheckpoint, IsRejectedForMissingExtraOrForeignFiles) {
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

TEST_F(DamagedCheckpoint, ExplainsTheDamage) {
  const auto refusal = [&] { return error_of([&] { const CheckpointReader read(folder); }); };
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
               [&] { const CheckpointReader none(out / "checkpoints/iter_30"); });
}

// It may be intact, unlike those that are damaged.
TEST_F(DamagedCheckpoint, ExcludesUnreadableCheckpoints) {
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
  expect_io(error([&] { const CheckpointReader none(folder); }), folder / manifest_name);
  expect_io(error([&] { const NpzFile none(folder / "state.npz"); }), folder / "state.npz");
  expect_io(error([&] { saved_states_in(out.path()); }), out / checkpoints_name);
  expect_io(error([&] { find_checkpoint(out.path(), "x"); }), out / checkpoints_name);
  std::ofstream(out / abandoned_name) << "checkpoints/iter_20\n";
  expect_io(error([&] { abandoned_in(out.path()); }), out / abandoned_name);
  expect_io(error([&] { read_latest(out.path()); }), out / latest_name);
}

// While it is open: the disk gives other bytes than when it was checked.
TEST_F(DamagedCheckpoint, IsDetectedWhenAnArrayIsRead) {
  CheckpointWriter writer({.out = out.path(), .iteration = 30, .epoch = 1, .parts = 1});
  const fs::path large = writer.write({"", {{"x", ramp(Shape{100'000}, 0)}}, {}});
  const CheckpointReader checkpoint(large);
  flip(large / "state.npz", 200'000, 3);
  expect_error(ErrorKind::data, {"x in ", "state.npz is damaged"}, [&] { checkpoint.read("x"); });
}

}  // namespace
}  // namespace tasuki

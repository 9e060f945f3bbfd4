// Checkpoints that one or several writers make, and what is read from them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>

#include "core/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "written_checkpoints.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const std::string nothing_thrown = "(nothing thrown)";

TEST(CheckpointFiles, RoundTrips) {
  const TemporaryFolder out;
  EXPECT_EQ(write_alone(out.path(), 600, 1), out / "checkpoints/iter_600");
  expect_state(out / "checkpoints/iter_600", 1);
  EXPECT_EQ(read_file(out / "latest"), "checkpoints/iter_600\n");
  const CheckpointReader checkpoint(out / "checkpoints/iter_600");
  EXPECT_EQ(checkpoint.manifest().iteration, 600);
  EXPECT_EQ(checkpoint.manifest().epoch, 1);
  EXPECT_EQ(checkpoint.find("updater/model:main/l1/W")->shape, (Shape{6, 5}));
  EXPECT_EQ(checkpoint.find("updater/optimizer:main/name")->dtype, std::nullopt);
  EXPECT_FALSE(checkpoint.find("updater"));
  expect_error(ErrorKind::data, {"iter_600 has no entry updater"},
               [&] { checkpoint.read("updater"); });
  // The file of its own is what Chainer loads.
  const NpzFile state(checkpoint.path() / "state.npz", /*require_hash=*/true);
  expect_array(state, "updater/model:main/l1/b", ramp(Shape{6}, 0.5));
}

TEST(CheckpointFiles, IsDistinctFromOthersOfItsIteration) {
  const TemporaryFolder out;
  for (float start = 1; start <= 3; ++start) write_alone(out.path(), 5, start);
  expect_state(out / "checkpoints/iter_5", 1);
  expect_state(out / "checkpoints/iter_5-2", 2);
  expect_state(out / "checkpoints/iter_5-3", 3);
  EXPECT_EQ(saved_states_in(out.path()).front().path, out / "checkpoints/iter_5-3");
}

TEST(CheckpointFiles, OpensLikeASnapshot) {
  const TemporaryFolder out;
  const fs::path folder = write_alone(out.path(), 5, 1);
  write_npz(out / "snapshot_iter_5.1", state_from(2));
  expect_array(*open_saved_state(folder), "updater/model:main/l1/b", ramp(Shape{6}, 0.5));
  expect_array(*open_saved_state(out / "snapshot_iter_5", ".1"), "updater/model:main/l1/b",
               ramp(Shape{6}, 1));
  expect_error(ErrorKind::missing, {"snapshot_iter_5: no such file"},
               [&] { open_saved_state(out / "snapshot_iter_5"); });
}

// Array "a" of 4 x 5 elements and "b" of 3, one after the other as in an arena, dealt to writers.
std::vector<NpzPiece> pieces_of(Range slice) {
  const std::vector<std::pair<std::string, Tensor>> arrays = {{"a", ramp(Shape{4, 5}, 1)},
                                                              {"b", ramp(Shape{3}, 100)}};
  std::vector<NpzPiece> pieces;
  std::int64_t at = 0;  // of the array
  for (const auto& [name, array] : arrays) {
    const std::int64_t begin = std::max(slice.begin - at, std::int64_t{0});
    const std::int64_t end = std::min(slice.end - at, array.count());
    const Tensor flat = array.reshape(Shape{array.count()});
    if (begin < end) pieces.push_back({{name, flat.slice(begin, end)}, begin, array.shape()});
    at += array.count();
  }
  return pieces;
}

TEST(CheckpointFiles, JoinsItsPieces) {
  for (int count = 1; count <= 4; ++count) {
    const TemporaryFolder out;
    const auto errors = with_writers(count, [&](const Writers& writers) {
      CheckpointWriter writer({.out = out.path(), .iteration = 9, .epoch = 1, .parts = 1}, writers);
      CheckpointArrays arrays;
      if (writers.index() == 0) arrays.state = state_from(1);
      arrays.pieces = pieces_of(part_of(23, count, writers.index()));
      writer.write(arrays);
      EXPECT_EQ(writer.is_first_on_disk(), writers.index() == 0);
    });
    EXPECT_THAT(errors, Each(nothing_thrown)) << count;
    const CheckpointReader checkpoint(out / "checkpoints/iter_9");
    expect_array(checkpoint, "a", ramp(Shape{4, 5}, 1));
    expect_array(checkpoint, "b", ramp(Shape{3}, 100));
    expect_array(checkpoint, "updater/model:main/l1/b", ramp(Shape{6}, 0.5));
    EXPECT_EQ(checkpoint.find("a")->shape, (Shape{4, 5}));
    EXPECT_EQ(checkpoint.names().size(), state_from(1).size() + 2);
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(checkpoint.path())) files += entry.exists();
    EXPECT_EQ(files, static_cast<std::size_t>(count) + 2) << "state and manifest beside pieces";
  }
}

TEST(CheckpointFiles, RejectsIncompletePieces) {
  const std::vector<std::pair<std::vector<NpzPiece>, std::string>> cases = {
      {{{{"a", ramp(Shape{5}, 1)}, 0, Shape{7}}}, "a in "},
      {{{{"a", ramp(Shape{5}, 1)}, 2, Shape{7}}}, "elements 2 to 7, after 0"},
      {{{{"updater/iteration", ramp(Shape{5}, 1)}, 0, Shape{5}}}, "it is in several files"},
      {{{{"a", ramp(Shape{1, 5}, 1)}, 0, Shape{5}}}, "elements 0 to 5, after 0"}};
  for (const auto& [pieces, reason] : cases) {
    const TemporaryFolder out;
    CheckpointWriter writer({.out = out.path(), .iteration = 9, .epoch = 1, .parts = 1});
    const fs::path folder = writer.write({"", state_from(1), pieces});
    expect_error(ErrorKind::data, {folder.string(), reason},
                 [&] { const CheckpointReader read(folder); });
  }
}

// Each writer has a part of a model, all on one disk or each on its own.
TEST(CheckpointFiles, HasAFileForEachModelPart) {
  for (const bool is_shared : {true, false}) {
    const TemporaryFolder folder;
    const auto out_of = [&](int writer) {
      return folder / (is_shared ? "out" : fmt::format("out{}", writer));
    };
    fs::create_directory(out_of(0));
    const std::set<std::string> left = {"checkpoints/iter_3"};
    if (!is_shared) {
      fs::create_directories(out_of(2) / "checkpoints/iter_8-4");
      for (int part = 0; part < 2; ++part)
        fs::create_directories(out_of(part) / "checkpoints/iter_3");
      abandon(out_of(0), left);
    }
    const std::string name = is_shared ? "iter_8" : "iter_8-5";
    const auto errors = with_writers(3, [&](const Writers& writers) {
      CheckpointWriter writer(
          {.out = out_of(writers.index()), .iteration = 8, .epoch = 1, .parts = 2}, writers);
      CheckpointArrays arrays;
      arrays.part = fmt::format(".{}", writers.index());
      // The last one has nothing to write.
      if (writers.index() < 2) arrays.state = state_from(static_cast<float>(writers.index()));
      EXPECT_EQ(writer.write(arrays),
                checkpoint_folder(out_of(writers.index()), *CheckpointName::parse(name)));
    });
    EXPECT_THAT(errors, Each(nothing_thrown));
    for (int part = 0; part < 2; ++part) {
      const CheckpointReader read(out_of(part) / "checkpoints" / name, fmt::format(".{}", part));
      expect_array(read, "updater/model:main/l1/b", ramp(Shape{6}, static_cast<float>(part) / 2));
      EXPECT_EQ(read.manifest().parts, 2);
      EXPECT_EQ(read.manifest().files.size(), is_shared ? 2U : 1U);
      EXPECT_EQ(read_latest(out_of(part)), "checkpoints/" + name);
      EXPECT_EQ(abandoned_in(out_of(part)), is_shared ? std::set<std::string>() : left);
    }
    EXPECT_EQ(CheckpointManifest::read(out_of(0) / "checkpoints" / name).id,
              CheckpointManifest::read(out_of(1) / "checkpoints" / name).id);
    EXPECT_EQ(fs::exists(out_of(2) / "checkpoints" / name), is_shared);
    const fs::path first = out_of(0) / "checkpoints" / name;
    expect_error(ErrorKind::missing, {first.string(), "a model on 2 ranks, and this run has whole"},
                 [&] { const CheckpointReader whole(first); });
    expect_error(ErrorKind::missing, {first.string(), "has no part .2 here"},
                 [&] { const CheckpointReader other(first, ".2"); });
  }
  const TemporaryFolder out;
  const fs::path whole = write_alone(out.path(), 1, 1);
  expect_error(ErrorKind::missing, {"it is of a whole model, and this run has a model on several"},
               [&] { const CheckpointReader part(whole, ".0"); });
}

TEST(Writers, DetectSharedDisks) {
  const TemporaryFolder folder;
  const std::vector<std::string> disks = {"a", "b", "a", "b", "c"};
  for (const char* const disk : {"a", "b", "c"}) fs::create_directory(folder / disk);
  std::mutex mutex;
  std::vector<std::vector<int>> firsts;
  with_writers(5, [&](const Writers& writers) {
    auto found = writers.first_on_disk(folder / disks[static_cast<std::size_t>(writers.index())]);
    const std::lock_guard lock(mutex);
    firsts.push_back(std::move(found));
  });
  EXPECT_EQ(firsts, std::vector(5, std::vector<int>{0, 1, 0, 1, 4}));
  for (const char* const disk : {"a", "b", "c"}) EXPECT_TRUE(fs::is_empty(folder / disk));
  // A folder that one of them lacks is an error of all.
  fs::remove(folder / "c");
  const auto errors = with_writers(5, [&](const Writers& writers) {
    writers.first_on_disk(folder / disks[static_cast<std::size_t>(writers.index())]);
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("cannot write " + (folder / "c").string()),
                                 HasSubstr("No such file or directory (on "))));
  for (const char* const disk : {"a", "b"}) EXPECT_TRUE(fs::is_empty(folder / disk));
}

TEST(CheckpointFiles, NeedsOneFolderForItsPieces) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out0");
  const auto errors = with_writers(2, [&](const Writers& writers) {
    CheckpointWriter writer({.out = folder / fmt::format("out{}", writers.index()),
                             .iteration = 8,
                             .epoch = 1,
                             .parts = 1},
                            writers);
    CheckpointArrays arrays;
    arrays.pieces = pieces_of(part_of(23, 2, writers.index()));
    writer.write(arrays);
  });
  EXPECT_THAT(errors, Each(HasSubstr("divided states need one folder that all ranks see")));
  for (const char* const out : {"out0", "out1"})
    EXPECT_TRUE(fs::is_empty(folder / out / "checkpoints")) << out;
}

}  // namespace
}  // namespace tasuki

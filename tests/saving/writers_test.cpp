// Ranks that write a checkpoint together, and read it on another number of ranks.
#include "saving/writers.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <new>
#include <thread>

#include "communicator/registry.hpp"
#include "core/system_error.hpp"
#include "program/start/rank_setup.hpp"
#include "saving/saved_states.hpp"
#include "saving/serializer.hpp"
#include "tests/support/no_more_files.hpp"
#include "tests/support/system_errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "written_checkpoints.hpp"

namespace tasuki {
namespace {

using namespace testing;

TEST(Writers, WritePiecesForAnyNumberOfReaders) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder out(comm.get());
  CheckpointWriter writer({.out = out.path(), .iteration = 3, .epoch = 1, .parts = 1},
                          Writers(*comm));
  const Range own = part_of(20, comm->size(), comm->rank());
  CheckpointArrays arrays;
  if (comm->rank() == 0) arrays.state = state_from(1);
  arrays.pieces = {
      {{"m", ramp(Shape{own.size()}, static_cast<float>(own.begin))}, own.begin, Shape{4, 5}}};
  const auto folder = writer.write(arrays);
  EXPECT_EQ(writer.is_first_on_disk(), comm->rank() == 0);
  // Each alone, as a job of one rank does.
  expect_array(CheckpointReader(folder), "m", ramp(Shape{4, 5}, 0));
  // All together, as a job does.
  std::unique_ptr<ArraySource> source;
  if (comm->rank() == 0) source = open_saved_state(folder);
  const Serializer loader = Serializer::loader(source.get(), comm.get());
  const Tensor loaded = Tensor::empty(Shape{4, 5});
  loader("m", loaded);
  EXPECT_EQ(std::memcmp(loaded.raw(), ramp(Shape{4, 5}, 0).raw(), loaded.bytes()), 0);
  EXPECT_EQ(loader.find_shape("m"), (Shape{4, 5}));
  std::int64_t iteration = 0;
  loader["updater"]("iteration", iteration);
  EXPECT_EQ(iteration, 1);
}

// A full disk is a warning; a bug or too little memory is not.
TEST(Writers, ShareFailuresOfAnyKind) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder out(comm.get());
  const Writers writers(*comm);
  const int last = comm->size() - 1;
  const auto expect = [&](ErrorKind kind, const std::string& message, const auto& work) {
    const auto error = caught([&] {
      writers.on_all([&]() -> std::string {
        if (comm->rank() == last) work();
        return "";
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), kind);
    EXPECT_EQ(std::string(error->what()).find(message), 0U) << error->what();
    EXPECT_EQ(error->scope(), comm->size() > 1 ? ErrorScope::every_rank : ErrorScope::this_rank);
  };
  expect(ErrorKind::cannot_write, "the disk is full",
         [] { fail(ErrorKind::cannot_write, "the disk is full"); });
  expect(ErrorKind::cannot_write, "filesystem error",
         [&] { std::filesystem::create_directory(out.path() / "none" / "there"); });
  // What the system answered arrives on all.
  const SystemError full = system_error_of([&] {
    writers.on_all([&]() -> std::string {
      if (comm->rank() == last)
        fail_because({ENOSPC, std::generic_category()}, ErrorKind::io, "cannot read {}", "x");
      return "";
    });
  });
  EXPECT_EQ(full.cause(), std::errc::no_space_on_device);
  EXPECT_EQ(full.kind(), ErrorKind::cannot_write);
  expect(ErrorKind::unavailable, "out of memory", [] { throw std::bad_alloc(); });
  expect(ErrorKind::internal, "", [] { TASUKI_CHECK(false, "this is a bug"); });
  // All are in step afterwards.
  const auto results = writers.on_all([&] { return std::to_string(comm->rank()); });
  EXPECT_EQ(results.at(static_cast<std::size_t>(last)), std::to_string(last));
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// In the background, on cores where the training computes.
TEST(Writers, WaitForASlowRankWithoutPolling) {
  const auto comm = create_communicator("naive");
  const Writers writers(*comm);
  const double before = cpu_seconds();
  writers.on_all([&]() -> std::string {
    if (comm->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return "";
  });
  EXPECT_LT(cpu_seconds() - before, 0.3);
}

// Each rank has a part of the model, in a working folder of its own.
TEST(Writers, RejectPartsOfTwoSaves) {
  const auto comm = create_communicator("naive");
  if (comm->size() == 1) GTEST_SKIP() << "needs two ranks";
  const TemporaryFolder own;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(own.path());
  std::filesystem::create_directory("out");
  const auto write = [&](std::int64_t iteration) {
    CheckpointWriter writer(
        {.out = "out", .iteration = iteration, .epoch = 1, .parts = comm->size()}, Writers(*comm));
    CheckpointArrays arrays;
    arrays.part = fmt::format(".{}", comm->rank());
    arrays.state = state_from(1);
    return writer.write(arrays);
  };
  const auto older = write(3), newer = write(8), other = write(8);
  if (comm->rank() == 1) {
    std::filesystem::remove_all(newer);
    std::filesystem::rename(other, newer);
  }
  const auto error =
      caught([&] { open_first_intact({{newer}}, "--resume", comm->size(), comm.get()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::data);
  EXPECT_EQ(std::string(error->what()).find("out/checkpoints/iter_8 is of two saves: rank 0 has "),
            0U)
      << error->what();
  const auto found =
      open_first_intact({{newer, older}, true}, "--resume", comm->size(), comm.get());
  EXPECT_EQ(found.path, older);
  expect_array(*found.source, "updater/model:main/l1/b", ramp(Shape{6}, 0.5F));
  std::filesystem::current_path(before);
}

// It would throw training away.
TEST(Writers, DoNotSkipPossiblyIntactCheckpoints) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder out(comm.get());
  if (comm->rank() == 0)
    for (const int iteration : {10, 20}) write_alone(out.path(), iteration, 1);
  comm->barrier();
  const std::filesystem::path older = checkpoint_folder(out.path(), {10, 1}),
                              newer = checkpoint_folder(out.path(), {20, 1});
  const auto opening = [&](const SavedStateList& list) {
    const NoMoreFiles none(comm->rank() == 0);
    return caught([&] { open_first_intact(list, "--resume", 1, comm.get()); });
  };
  auto error = opening({{newer, older}, true});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::io);
  EXPECT_EQ(error->what(), fmt::format("cannot read {}: Too many open files; it may be intact: try "
                                       "again, or go back with --resume {}",
                                       (newer / manifest_name).string(), older.string()));
  error = opening({{newer}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->what(),
            fmt::format("cannot read {}: Too many open files", (newer / manifest_name).string()));
}

// Each machine has a disk of its own: a folder of another name.
TEST(OverwrittenResults, AreRemovedOnAllDisks) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder folder(comm.get());
  const OutputFolder out(folder / fmt::format("disk {}", comm->inter_rank()));
  if (comm->intra_rank() == 0) {
    std::filesystem::create_directory(out.path());
    write_alone(out.path(), 10, 1);
  }
  comm->barrier();
  program::TrainingSettings settings;
  program::remove_old_results(*comm, settings, out);
  EXPECT_TRUE(has_results(out.path()));
  comm->barrier();
  settings.overwrite = true;
  program::remove_old_results(*comm, settings, out);
  EXPECT_FALSE(has_results(out.path()));
  comm->barrier();
}

}  // namespace
}  // namespace tasuki

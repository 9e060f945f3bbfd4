// Ranks that write a generation together, and read it on another number of ranks.
#include "tasuki/training/checkpoints/writers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

#include "tasuki/communicator/registry.hpp"
#include "tasuki/training/snapshots/serializer.hpp"
#include "temporary_folder.hpp"
#include "written_generations.hpp"

namespace tasuki {
namespace {

using namespace testing;

TEST(Ranks, WriteTheirPiecesAndAnyNumberReadsThem) {
  const auto comm = create_communicator("naive");
  const TemporaryFolder out(comm.get());
  GenerationWriter writer({.out = out.path(), .iteration = 3, .epoch = 1, .parts = 1},
                          Writers(*comm));
  const Range own = part_of(20, comm->size(), comm->rank());
  GenerationShare share;
  if (comm->rank() == 0) share.state = state_from(1);
  share.pieces = {
      {{"m", ramp(Shape{own.size()}, static_cast<float>(own.begin))}, own.begin, Shape{4, 5}}};
  const auto folder = writer.write(share);
  EXPECT_EQ(writer.is_first_on_disk(), comm->rank() == 0);
  // Each alone, as a job of one rank does.
  expect_array(Generation(folder), "m", ramp(Shape{4, 5}, 0));
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
TEST(Ranks, ShareAFailureOfAnyKind) {
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
  expect(ErrorKind::unavailable, "out of memory", [] { throw std::bad_alloc(); });
  expect(ErrorKind::internal, "", [] { TASUKI_CHECK(false, "this is a bug"); });
  // All are in step afterwards.
  const auto results = writers.on_all([&] { return std::to_string(comm->rank()); });
  EXPECT_EQ(results.at(static_cast<std::size_t>(last)), std::to_string(last));
}

}  // namespace
}  // namespace tasuki

// All ranks throw the errors of the root at once.
#include <gtest/gtest.h>

#include <string>

#include "communicator/bytes.hpp"
#include "communicator/registry.hpp"
#include "communicator/run_on_root.hpp"
#include "dataset/catalog.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/scatter.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

class ScatterFailure : public ::testing::Test {
 protected:
  // Every rank must meet this error, and be able to use the communicator afterwards.
  template <class Work>
  void expect_everywhere(ErrorKind kind, const std::vector<std::string>& words, const Work& work) {
    try {
      work();
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_EQ(error.scope(), ErrorScope::every_rank) << error.what();
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    const Bytes greeting = bcast_bytes(*communicator, std::as_bytes(std::span("hello", 5)));
    EXPECT_EQ(greeting.size(), 5u);
  }
  void scatter(const OpenSource& open, int root, bool shuffle) const {
    scatter_dataset(open, *communicator, {.root = root, .shuffle = shuffle});
  }

  // For every root, with the examples in order and shuffled. `write` runs on the root alone, whose
  // files have names that no other rank knows.
  template <class Write>
  void expect_from_every_root(ErrorKind kind, const std::vector<std::string>& words,
                              const Write& write) {
    for (int root = 0; root < communicator->size(); ++root)
      for (const bool shuffle : {false, true}) {
        const TemporaryFolder folder;
        if (communicator->rank() == root) write(folder);
        expect_everywhere(kind, words, [&] {
          scatter([&] { return open_idx(folder / "images", folder / "labels"); }, root, shuffle);
        });
      }
  }

  std::unique_ptr<Communicator> communicator = create_communicator("naive");
};

TEST_F(ScatterFailure, MissingFile) {
  expect_from_every_root(ErrorKind::missing, {"images"}, [](const TemporaryFolder&) {});
}

TEST_F(ScatterFailure, WrongHeader) {
  expect_from_every_root(ErrorKind::data, {"images", "0x00000803"},
                         [](const TemporaryFolder& folder) {
                           write_plain(folder / "images", idx_labels(16));
                           write_plain(folder / "labels", idx_labels(16));
                         });
}

// The end of a packed file is met only after most examples are with their ranks.
TEST_F(ScatterFailure, TruncatedAfterMegabytes) {
  constexpr int count = 4000, side = 28;
  std::string images = idx_images(count, side, side);
  images.pop_back();
  expect_from_every_root(ErrorKind::data, {"images", "found the end"},
                         [&](const TemporaryFolder& folder) {
                           write_gzip(folder / "images", images);
                           write_plain(folder / "labels", idx_labels(count));
                         });
}

TEST_F(ScatterFailure, BadLabelAtTheVeryEnd) {
  constexpr int count = 4000, side = 28;
  const std::string images = idx_images(count, side, side);
  std::string labels = idx_labels(count);
  labels.back() = 77;
  expect_from_every_root(ErrorKind::data, {"labels", "found 77", "example 3999"},
                         [&](const TemporaryFolder& folder) {
                           write_plain(folder / "images", images);
                           write_plain(folder / "labels", labels);
                         });
}

TEST_F(ScatterFailure, BytesAfterTheEnd) {
  expect_from_every_root(ErrorKind::data, {"labels", "found more"},
                         [](const TemporaryFolder& folder) {
                           write_plain(folder / "images", idx_images(16, 4, 4));
                           write_gzip(folder / "labels", idx_labels(16) + "x");
                         });
}

TEST_F(ScatterFailure, NoDatasetAtTheRoot) {
  expect_everywhere(ErrorKind::internal, {"no data set"},
                    [&] { scatter_dataset(static_cast<const Dataset*>(nullptr), *communicator); });
}

TEST_F(ScatterFailure, ForeignExceptions) {
  expect_everywhere(ErrorKind::internal, {"from elsewhere"}, [&] {
    run_on_root(*communicator, 0, []() -> Bytes { throw std::runtime_error("from elsewhere"); });
  });
}

TEST_F(ScatterFailure, HeadersOfMissingFiles) {
  expect_everywhere(ErrorKind::missing, {"nowhere"}, [&] {
    broadcast_header([] { return open_dataset("mnist", "/nowhere", DataSplit::train); },
                     *communicator);
  });
}

}  // namespace
}  // namespace tasuki

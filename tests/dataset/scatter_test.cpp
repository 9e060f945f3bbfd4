// Scattered shares are those of the plan.
#include "dataset/scatter.hpp"
#include "communicator/bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "communicator/registry.hpp"
#include "core/hash.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/synthetic.hpp"
#include "dataset/transform.hpp"
#include "dataset/views.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tests/support/sequences.hpp"
#include "tests/support/skip.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

Communicator& world() {
  static const auto communicator = create_communicator("naive");
  return *communicator;
}

// Everything about a share's examples.
struct Contents {
  std::vector<std::int64_t> ids;
  std::vector<std::byte> values;
  std::vector<std::int32_t> labels;
  friend bool operator==(const Contents&, const Contents&) = default;
};

Contents contents_of(const Dataset& dataset) {
  Contents contents;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    contents.ids.push_back(dataset.id(i));
    const std::vector<std::byte> values = stored_in(dataset, "x", i);
    contents.values.insert(contents.values.end(), values.begin(), values.end());
    contents.labels.push_back(label_in(dataset, i));
  }
  return contents;
}

// Ids of all ranks, sorted.
std::vector<std::int64_t> gathered_ids(const Share& share) {
  const Contents own = contents_of(*share.dataset);
  std::vector<std::int64_t> ids;
  for (const Bytes& bytes : allgather_bytes(world(), std::as_bytes(std::span(own.ids)))) {
    const auto* numbers = reinterpret_cast<const std::int64_t*>(bytes.data());
    ids.insert(ids.end(), numbers, numbers + bytes.size() / sizeof(std::int64_t));
  }
  std::ranges::sort(ids);
  return ids;
}

// Case 16 of ChainerMN's tests, with what was asked for beyond it: every root, shuffled or not,
// exact or equal lengths, more shards than ranks, sizes 0, 1, n, 5n - 1 and odd ones.
TEST(ScatterDataset, GivesEveryRankExactlyItsShare) {
  const int size = world().size();
  for (int root = 0; root < size; ++root)
    for (const bool shuffle : {false, true})
      for (const bool equal : {false, true})
        for (const int shards : {0, size, 3 * size})
          for (const std::int64_t n : {0, 1, size, 5 * size - 1, 1001}) {
            SCOPED_TRACE(fmt::format("root {} shuffle {} equal {} shards {} n {}", root, shuffle,
                                     equal, shards, n));
            const ScatterOptions options{root, shuffle, 7, equal, shards};
            const auto whole = numbered_examples(n);
            const bool is_root = world().rank() == root;
            const Share share = scatter_dataset(is_root ? whole.get() : nullptr, world(), options);
            const Share expected = take_share(whole, size, world().rank(), options);
            EXPECT_EQ(contents_of(*share.dataset), contents_of(*expected.dataset));
            EXPECT_EQ(share.rank, world().rank());
            EXPECT_EQ(share.dataset->header().fields, whole->header().fields);

            auto ids = gathered_ids(share);
            if (equal) ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
            EXPECT_EQ(std::ssize(ids), n);
            if (n > 0) {
              EXPECT_EQ(ids.front(), 0);
              EXPECT_EQ(ids.back(), n - 1);
            }
            if (equal && shards != 3 * size) {
              const std::int64_t s = share.dataset->size();
              EXPECT_TRUE((s - 1) * size < n && n <= s * size);
            }
          }
}

// Fields of all kinds travel, those of unlike lengths too.
TEST(ScatterDataset, SendsEveryField) {
  const int size = world().size();
  for (int root = 0; root < size; ++root)
    for (const std::int64_t n : {0, 1, 5 * size - 1, 1001})
      for (const bool shuffle : {false, true}) {
        SCOPED_TRACE(fmt::format("root {} n {} shuffle {}", root, n, shuffle));
        const ScatterOptions options{.root = root, .shuffle = shuffle, .seed = 5};
        const auto whole = sequences(n, 3);
        const Share share =
            scatter_dataset(world().rank() == root ? whole.get() : nullptr, world(), options);
        EXPECT_EQ(share.dataset->header().fields, whole->header().fields);
        const Share expected = take_share(whole, size, world().rank(), options);
        ASSERT_EQ(share.dataset->size(), expected.dataset->size());
        std::vector<std::int64_t> all(static_cast<std::size_t>(share.dataset->size()));
        std::iota(all.begin(), all.end(), 0);
        const Batch batch = read_batch(*share.dataset, all);
        EXPECT_EQ(ids_of(batch), ids_of(read_batch(*expected.dataset, all)));
        expect_sequences(batch, 3);
        const std::vector<std::int64_t> header =
            encode_header(broadcast_header([&] { return source_of(*whole); }, world(), root));
        const auto headers = allgather_bytes(world(), std::as_bytes(std::span(header)));
        for (const Bytes& found : headers) EXPECT_EQ(found, headers[0]);
      }
}

// What snapshots keep of the labels of a classification is what it was when a data set had nothing
// else: the labels alone, block by block.
TEST(ScatterDataset, HashesTheTargets) {
  const SyntheticDataset whole({.count = 5000, .example_shape = {1000}});
  const bool is_root = world().rank() == 0;
  const Share share = scatter_dataset(is_root ? &whole : nullptr, world());
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < 5000; ++i) labels.push_back(label_in(whole, i));
  constexpr std::size_t block = (1 << 20) / (1000 + 4);
  std::uint64_t expected = 0;
  for (std::size_t begin = 0; begin < labels.size(); begin += block)
    expected = hash_bytes(
        std::as_bytes(std::span(labels).subspan(begin, std::min(block, labels.size() - begin))),
        expected);
  EXPECT_EQ(share.labels_hash, expected);
  // Without targets, all fields are hashed.
  const auto hash_of = [&](float value) {
    InMemoryDataset dataset({1, {{.name = "x"}}});
    const std::span<const std::byte> example[] = {std::as_bytes(std::span(&value, 1))};
    dataset.set(0, 0, example);
    return scatter_dataset(is_root ? &dataset : nullptr, world()).labels_hash;
  };
  EXPECT_NE(hash_of(1), hash_of(2));
}

TEST(ScatterDataset, UsesOnlyTheRootsOptions) {
  const auto whole = numbered_examples(30);
  const bool is_root = world().rank() == 0;
  const ScatterOptions wanted{.shuffle = true, .seed = 9, .shards = 2 * world().size()};
  const Share share = scatter_dataset(is_root ? whole.get() : nullptr, world(),
                                      is_root ? wanted : ScatterOptions{});
  EXPECT_EQ(contents_of(*share.dataset),
            contents_of(*take_share(whole, world().size(), world().rank(), wanted).dataset));
  EXPECT_EQ(share.plan.shards(), 2 * world().size());
}

TEST(ScatterDataset, SendsFilesAsStored) {
  constexpr int count = 3000, rows = 28, columns = 28;
  const TemporaryFolder folder;
  const bool is_root = world().rank() == world().size() - 1;
  if (is_root) {
    write_gzip(folder / "images", idx_images(count, rows, columns));
    write_plain(folder / "labels", idx_labels(count));
  }
  const OpenSource open = [&] { return open_idx(folder / "images", folder / "labels"); };
  const int root = world().size() - 1;
  EXPECT_EQ(broadcast_header(open, world(), root).count, count);
  const Share share = scatter_dataset(open, world(), {.root = root, .shuffle = true, .seed = 1});
  const Contents own = contents_of(*share.dataset);
  constexpr std::size_t pixels = rows * columns;
  for (std::size_t i = 0; i < own.ids.size(); ++i) {
    EXPECT_EQ(own.labels[i], label(own.ids[i]));
    for (const std::size_t j : {std::size_t{0}, pixels / 2, pixels - 1})
      ASSERT_EQ(std::to_integer<int>(own.values[i * pixels + j]),
                pixel(own.ids[i], static_cast<std::int64_t>(j)));
  }
  EXPECT_EQ(share.dataset->stored_bytes(), own.ids.size() * (pixels + 12));
}

// Examples are sent as stored, where a transform would be lost: refused on all ranks, for views of
// all kinds. Each rank transforms its share instead.
TEST(ScatterDataset, RejectsTransformedExamples) {
  struct Halved final : Dataset {
    std::shared_ptr<const Dataset> whole;
    explicit Halved(std::shared_ptr<const Dataset> examples) : whole(std::move(examples)) {}
    const DatasetHeader& header() const override { return whole->header(); }
    void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
      whole->read(i, field, into);
    }
    const Transform* transform(std::size_t field) const override {
      return field == 0 ? &halve : nullptr;
    }
    Transform halve{[](const std::byte* stored, const ExampleKey&, float* x) {
                      const auto* const from = reinterpret_cast<const float*>(stored);
                      std::transform(from, from + 2, x, [](float value) { return value / 2; });
                    },
                    {}};
  };
  const auto whole = numbered_examples(10);
  const auto halved = std::make_shared<Halved>(whole);
  const Transform zero{[](const std::byte*, const ExampleKey&, float* x) { *x = 0; }, {}};
  for (const std::shared_ptr<const Dataset>& dataset :
       {std::shared_ptr<const Dataset>(halved), transformed(whole, zero),
        subset_of(halved, {3, 1})})
    expect_error(ErrorKind::usage, {"cannot be scattered", "transformed(share.dataset"},
                 [&] { scatter_dataset(world().rank() == 0 ? dataset.get() : nullptr, world()); });
  // The same as the shares of ranks that can reach the data set.
  const std::vector<std::int64_t> last{9};
  EXPECT_EQ(read_batch(*halved, last)["x"].data<float>()[0],
            read_batch(*whole, last)["x"].data<float>()[0] / 2);
}

TEST(ScatterDataset, RejectsInvalidShardsOnAllRanks) {
  const auto whole = numbered_examples(10);
  if (world().size() == 1) GTEST_SKIP() << "every number of shards fits one rank";
  expect_error(ErrorKind::config, {"shards"},
               [&] { scatter_dataset(whole.get(), world(), {.shards = world().size() + 1}); });
}

// Case 17 under mpirun: the root's count is what counts.
TEST(ScatterIndex, IsTheRanksPart) {
  const int size = world().size(), rank = world().rank();
  for (int root = 0; root < size; ++root)
    for (const std::int64_t n : {0, 1, 10, 1244, 230945})
      for (const bool equal : {false, true})
        EXPECT_EQ(scatter_index(rank == root ? n : -1, world(), root, equal),
                  part_of(n, size, rank, equal));
}

// Resident memory of this process: now, and the most since the last reset.
struct Memory {
  static std::int64_t kilobytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string name; status >> name;) {
      std::int64_t value = 0;
      if (name == field + ":" && status >> value) return value;
      std::getline(status, name);
    }
    return -1;
  }
  static bool reset_peak() {
    return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5);
  }
};

TEST(ScatterDataset, KeepsOnlyTheShareOnEachRank) {
  constexpr std::int64_t n = 100'000, pixels = 784;  // 78 MB
  if (has_address_sanitizer) GTEST_SKIP() << "the address sanitizer keeps freed memory";
  if (!Memory::reset_peak()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
  const std::int64_t before = Memory::kilobytes("VmRSS");
  ASSERT_GT(before, 0);
  // Made up as it is read, so that only what scatter_dataset keeps is counted.
  const SyntheticDataset dataset({.count = n, .example_shape = {pixels}});
  const Share share = scatter_dataset(&dataset, world(), {.shuffle = true});
  const std::int64_t grown = Memory::kilobytes("VmHWM") - before;
  const auto stored = static_cast<std::int64_t>(share.dataset->stored_bytes()) / 1024;
  EXPECT_LE(stored, n * (pixels + 12) / 1024 / world().size() + 1);
  EXPECT_GE(grown, stored * 9 / 10) << "the measurement does not work";
  EXPECT_LE(grown, stored + 16 * 1024) << "kilobytes";
}

}  // namespace
}  // namespace tasuki

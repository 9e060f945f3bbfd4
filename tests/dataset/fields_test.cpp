// Fields of any type, shape and length, from storage to batches.
#include "dataset/field.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "dataset/dataset.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/stream/example_buffer.hpp"
#include "dataset/transform.hpp"
#include "dataset/views.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tensor/half.hpp"
#include "tests/support/sequences.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

TEST(Fields, PadRaggedFieldsToTheBatchsLongest) {
  const auto dataset = sequences(20);
  expect_sequences(read_batch(*dataset, std::vector<std::int64_t>{0, 2, 19}));
  expect_sequences(read_batch(*dataset, std::vector<std::int64_t>{3, 3}));
  const Batch batch = read_batch(*dataset, std::vector<std::int64_t>{2, 4, 1});
  EXPECT_EQ(batch["tokens"].shape(), (Shape{3, 3}));
  EXPECT_TRUE(batch.fields()[2].is_target);
  EXPECT_FALSE(batch.fields()[0].is_target);
}

TEST(Fields, PadRaggedFieldsToAMultiple) {
  const auto dataset = sequences(20, /*pad_to=*/4);
  for (std::int64_t i = 0; i < 20; ++i) expect_sequences(read_batch(*dataset, {&i, 1}), 4);
  EXPECT_EQ(read_batch(*dataset, std::vector<std::int64_t>{3, 4})["tokens"].shape(), (Shape{2, 4}));
}

TEST(Fields, KeepAxesOfEmptyBatches) {
  const auto dataset = sequences(20);
  const Batch none = read_batch(*dataset, {});
  EXPECT_EQ(none["tokens"].shape(), (Shape{0, 0}));
  EXPECT_EQ(none.lengths("tokens").shape(), Shape{0});
  EXPECT_EQ(none["y"].shape(), (Shape{0, 1}));
  const Batch empty = read_batch(*dataset, std::vector<std::int64_t>{5, 10});
  EXPECT_EQ(empty["tokens"].shape(), (Shape{2, 0}));
}

TEST(Fields, RaggedElementsCanHaveAShape) {
  InMemoryDataset dataset(
      {2, {{.name = "frames", .shape = {0, 2}, .is_ragged = true, .padding = 0.5}}});
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::span<const std::byte> first[] = {std::as_bytes(std::span(values)).first(8)};
  const std::span<const std::byte> second[] = {std::as_bytes(std::span(values))};
  dataset.set(0, 0, first);
  dataset.set(1, 1, second);
  const Batch batch = read_batch(dataset, std::vector<std::int64_t>{0, 1});
  ASSERT_EQ(batch["frames"].shape(), (Shape{2, 3, 2}));
  const auto found = batch["frames"].span<float>();
  EXPECT_EQ(std::vector<float>(found.begin(), found.end()),
            (std::vector<float>{1, 2, 0.5, 0.5, 0.5, 0.5, 1, 2, 3, 4, 5, 6}));
}

TEST(Fields, DecodeToTheirType) {
  const std::uint8_t bytes[] = {0, 7, 255};
  const auto decoded = [&]<class T>(DType type, T) {
    std::vector<T> to(3);
    decoder_of(DType::uint8, type)(std::as_bytes(std::span(bytes)).data(),
                                   std::as_writable_bytes(std::span(to)).data(), 3);
    return to;
  };
  EXPECT_EQ(decoded(DType::float32, 0.0F), (std::vector<float>{0, 7 / 255.0F, 1}));
  EXPECT_EQ(decoded(DType::int32, 0), (std::vector<std::int32_t>{0, 7, 255}));
  EXPECT_EQ(decoded(DType::int64, std::int64_t{0}), (std::vector<std::int64_t>{0, 7, 255}));
  EXPECT_EQ(decoded(DType::uint8, std::uint8_t{0}), (std::vector<std::uint8_t>{0, 7, 255}));
  const std::uint16_t halves[] = {half_from_float(-1.5F), half_from_float(0x1p-20F)};
  float floats[2] = {};
  decoder_of(DType::float16, DType::float32)(std::as_bytes(std::span(halves)).data(),
                                             std::as_writable_bytes(std::span(floats)).data(), 2);
  EXPECT_EQ(floats[0], -1.5F);
  EXPECT_EQ(floats[1], 0x1p-20F);
  const double doubles[] = {-1.5, 0.1};
  decoder_of(DType::float64, DType::float32)(std::as_bytes(std::span(doubles)).data(),
                                             std::as_writable_bytes(std::span(floats)).data(), 2);
  EXPECT_EQ(floats[0], -1.5F);
  EXPECT_EQ(floats[1], 0.1F);
}

TEST(Fields, RejectInvalidDescriptions) {
  const auto refused = [](const Field& field, const std::vector<std::string>& words) {
    expect_error(ErrorKind::usage, words, [&] { InMemoryDataset({1, {field}}); });
  };
  refused({.name = "x", .stored = DType::int32}, {"'x'", "int32", "float32"});
  refused({.name = ""}, {"no name"});
  refused({.name = "x", .is_ragged = true}, {"'x'", "an axis"});
  refused({.name = "x", .shape = {0, 0}, .is_ragged = true}, {"'x'", "size"});
  refused({.name = "x", .shape = {0}, .is_ragged = true, .pad_to = 0}, {"pad_to", "found 0"});
  refused({.name = "t", .classes = 10}, {"'t'", "labels are int32 or int64, not float32"});
  refused({.name = "x", .shape = {1, 8, 8}, .stored = DType::uint8, .is_image_file = true},
          {"'x'", "1x8x8"});
  refused({.name = "t", .ignored_label = -1}, {"'t'", "int32 or int64, not float32"});
  const Field labels{.name = "t",
                     .shape = {0},
                     .stored = DType::int32,
                     .decoded = DType::int32,
                     .ignored_label = -1,
                     .is_ragged = true};
  refused(labels, {"'t'", "padding with the ignored label -1, found 0"});
  expect_error(ErrorKind::usage, {"expected one field with an ignored label"}, [&] {
    Field first = labels;
    first.padding = -1;
    Field second = first;
    second.name = "u";
    InMemoryDataset({1, {first, second}});
  });
  expect_error(ErrorKind::usage, {"two fields are named 'x'"}, [] {
    InMemoryDataset({1, {{.name = "x"}, {.name = "t"}, {.name = "x"}}});
  });
  expect_error(ErrorKind::usage, {"no field 'z'", "tokens, bytes, y"},
               [] { sequences(1)->header().field("z"); });
}

TEST(Fields, RejectTooLongExamples) {
  const Field field{.name = "x", .shape = {3}, .is_ragged = true};
  std::vector<std::byte> buffer;
  FieldWriter writer(field, buffer);
  writer.resize(3);
  EXPECT_EQ(writer.as<float>().size(), 3U);
  expect_error(ErrorKind::data, {"'x'", "at most 3", "found 4"}, [&] { writer.resize(4); });
  expect_error(ErrorKind::internal, {"'x' is stored as float32, not int32"},
               [&] { writer.as<std::int32_t>(); });
}

TEST(Fields, CheckLabelsOfAnyShape) {
  InMemoryDataset dataset({2,
                           {{.name = "mask",
                             .shape = {2},
                             .stored = DType::int64,
                             .decoded = DType::int64,
                             .is_target = true,
                             .classes = 3}}});
  const std::int64_t labels[] = {2, 0, 1, -1};
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::span<const std::byte> example[] = {
        std::as_bytes(std::span(labels).subspan(static_cast<std::size_t>(2 * i), 2))};
    dataset.set(i, 10 + i, example);
  }
  EXPECT_EQ(read_batch(dataset, std::vector<std::int64_t>{0})["mask"].shape(), (Shape{1, 2}));
  expect_error(ErrorKind::data, {"example 11 has label -1, expected 0 .. 2"}, [&] {
    read_batch(dataset, std::vector<std::int64_t>{0, 1});
  });
}

TEST(Fields, RejectLabelsOutsideTheClasses) {
  const auto dataset = make_dataset({1}, 3, std::vector<float>(4), std::vector{0, 2, 3, 1});
  read_batch(*dataset, std::vector<std::int64_t>{0, 1, 3});
  expect_error(ErrorKind::data, {"example 2 has label 3, expected 0 .. 2"}, [&] {
    read_batch(*dataset, std::vector<std::int64_t>{1, 2});
  });
}

// A data set of a program's own, of which an example cannot be read, or found together with others.
struct Unreadable final : Dataset {
  DatasetHeader of = classification_header(6, {1}, 2, DType::float32);
  ErrorKind kind = ErrorKind::data;
  const DatasetHeader& header() const override { return of; }
  void read(std::int64_t i, std::size_t, FieldWriter&) const override {
    if (i == 4) fail(kind, "my file is damaged");
  }
  bool finds_examples = false;
  LocatedExamples locate(std::span<const std::int64_t> examples, std::size_t) const override {
    if (!finds_examples) return {};
    static const std::byte zeros[8] = {};
    LocatedExamples found;
    for (const std::int64_t i : examples) {
      if (i == 4) fail(kind, "my file is damaged");
      found.places.push_back(zeros);
    }
    return found;
  }
};

TEST(Fields, TransformErrorsNameTheExample) {
  const auto own = std::make_shared<Unreadable>();
  const auto changed =
      transformed(own, {.function = [](const std::byte*, const ExampleKey& key, float*) {
                    if (key.id == 3) fail(ErrorKind::data, "no such picture");
                  }});
  for (const bool finds_examples : {false, true}) {
    own->finds_examples = finds_examples;
    expect_error(ErrorKind::data, {"example 3: no such picture"}, [&] {
      read_batch(*changed, std::vector<std::int64_t>{0, 3});
    });
  }
}

TEST(Fields, ReadErrorsNameTheExample) {
  const auto own = std::make_shared<Unreadable>();
  const auto part = subset_of(own, {5, 4});
  const auto expect_named = [](const auto& work) {
    expect_error(ErrorKind::data, {"example 4: my file is damaged"}, work);
  };
  for (const bool finds_examples : {false, true}) {
    own->finds_examples = finds_examples;
    expect_named([&] { read_batch(*own, std::vector<std::int64_t>{3, 4}); });
    expect_named([&] { read_batch(*part, std::vector<std::int64_t>{1}); });
  }
  RecordBlock block;
  expect_named([&] { source_of(*own)->read(6, block); });
  expect_named([&] { source_of(*part)->read(2, block); });
  std::vector<std::byte> columns;
  expect_named([&] { append_columns(*part, 0, 2, columns); });
  expect_named([&] {
    create_resident_iterator(create_serial_iterator(Share::whole(part), 2), Device::cpu());
  });
  own->kind = ErrorKind::unavailable;
  try {
    read_batch(*own, std::vector<std::int64_t>{4});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "my file is damaged");
  }
}

// Losses leave negative labels out, so batches may be filled up with them.
TEST(Fields, AcceptPaddingInLabels) {
  for (const DType type : {DType::int32, DType::int64}) {
    InMemoryDataset dataset({3,
                             {{.name = "tags",
                               .shape = {0, 2},
                               .stored = type,
                               .decoded = type,
                               .is_target = true,
                               .classes = 3,
                               .is_ragged = true,
                               .padding = -1}}});
    const auto set = [&](std::int64_t i, const std::vector<std::int64_t>& labels) {
      const std::vector<std::int32_t> narrow(labels.begin(), labels.end());
      const std::span<const std::byte> example[] = {type == DType::int64
                                                        ? std::as_bytes(std::span(labels))
                                                        : std::as_bytes(std::span(narrow))};
      dataset.set(i, 10 + i, example);
    };
    set(0, {2, 1, 0, 0});
    set(1, {1, 1});
    set(2, {1, -2});
    const Batch batch = read_batch(dataset, std::vector<std::int64_t>{1, 0});
    EXPECT_EQ(batch["tags"].reshape({8}).slice(2, 3).item(), -1);
    expect_error(ErrorKind::data, {"example 12 has label -2, expected 0 .. 2"}, [&] {
      read_batch(dataset, std::vector<std::int64_t>{0, 1, 2});
    });
  }
}

TEST(Fields, SubsetsShareTheFieldsMemory) {
  const auto dataset = sequences(20);
  const auto some = subset_of(dataset, {19, 2, 4, 3});
  const auto fewer = subset_of(some, {2, 0});
  expect_sequences(read_batch(*fewer, std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(fewer->array(0).examples, dataset->array(0).examples) << "nothing is copied";
  EXPECT_EQ(fewer->array(1).values, dataset->array(1).values);
}

// Where nothing lies in memory, examples are written when they are read.
struct Written final : Dataset {
  std::shared_ptr<InMemoryDataset> of = sequences(20);
  const DatasetHeader& header() const override { return of->header(); }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    of->read(i, field, into);
  }
};

TEST(Fields, ReadFromDatasetsThatWriteThem) {
  const Written written;
  expect_sequences(read_batch(written, std::vector<std::int64_t>{7, 1, 12}));
  const auto copy = read_dataset(*source_of(written));
  expect_sequences(read_batch(*copy, std::vector<std::int64_t>{7, 1, 12}));
  EXPECT_EQ(copy->stored_bytes(), written.of->stored_bytes());
}

TEST(Fields, VariableLengthFieldsFillBoundedBlocks) {
  constexpr std::int64_t count = 3000, longest = 4096;
  InMemoryDataset dataset(
      {count, {{.name = "x", .shape = {longest}, .is_ragged = true}, {.name = "y"}}});
  const std::vector<float> values(longest);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span<const std::byte> example[] = {
        std::as_bytes(std::span(values).first(static_cast<std::size_t>(i % longest))),
        std::as_bytes(std::span(values).first(1))};
    dataset.set(i, i, example);
  }
  const auto source = source_of(dataset);
  std::int64_t next = 0, blocks = 0;
  for (RecordBlock block; source->read_block(block); ++blocks) {
    EXPECT_EQ(block.first, next);
    EXPECT_LE(block.bytes(), (1U << 20) + 2 * longest * sizeof(float));
    for (std::int64_t i = 0; i < block.count; ++i)
      ASSERT_EQ(block.at(0, i).size(), static_cast<std::size_t>((next + i) % longest) * 4);
    next += block.count;
  }
  EXPECT_EQ(next, count);
  EXPECT_LT(blocks, 30);
}

TEST(Fields, HeaderRoundTrips) {
  DatasetHeader header = sequences_header(123, 8);
  header.fields[0].shape = {50};
  header.fields.push_back({.name = "picture",
                           .shape = {3, 4, 4},
                           .stored = DType::uint8,
                           .classes = 0,
                           .is_image_file = true});
  const DatasetHeader found = decode_header(encode_header(header));
  EXPECT_EQ(found.count, 123);
  EXPECT_EQ(found.fields, header.fields);
  expect_error(ErrorKind::internal, {"left"}, [&] {
    auto cut = encode_header(header);
    cut.pop_back();
    decode_header(cut);
  });
}

TEST(Fields, DescribeInputShapes) {
  EXPECT_EQ(classification_header(1, {3, 32, 32}, 10).shape_text(), "3x32x32");
  EXPECT_EQ(sequences_header(1).shape_text(), "tokens 0, bytes 2");
}

TEST(Fields, GiveTheSameBatchesAfterAResume) {
  const auto iterator = [](int threads) -> std::unique_ptr<Iterator> {
    auto plain = create_shuffled_iterator(Share::whole(sequences(23, 2)), 4, 7);
    if (threads == 0) return plain;
    return std::make_unique<PrefetchIterator>(std::move(plain), threads, 3);
  };
  const auto expected = iterator(0);
  for (int i = 0; i < 8; ++i) expected->next();
  for (const int threads : {0, 1, 2}) {
    const auto resumed = iterator(threads);
    resumed->next();
    resumed->restore(expected->state());
    const auto plain = iterator(0);
    plain->restore(expected->state());
    for (int i = 0; i < 9; ++i) {
      const Batch batch = resumed->next();
      EXPECT_EQ(ids_of(batch), ids_of(plain->next()));
      expect_sequences(batch, 2);
    }
  }
}

}  // namespace
}  // namespace tasuki

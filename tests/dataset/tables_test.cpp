// Data sets in one line: of tensors, of tables and of sequences in text files.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "dataset/files/csv.hpp"
#include "dataset/files/sequences.hpp"
#include "dataset/files/text_file.hpp"
#include "dataset/tensor_dataset.hpp"
#include "examples.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

Batch all_of(const Dataset& dataset) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) all.push_back(i);
  return read_batch(dataset, all);
}
template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto values = tensor.span<T>();
  return {values.begin(), values.end()};
}
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

TEST(TensorDataset, HasTensorsAsFields) {
  const TensorDataset dataset({vector_field<float>("left", {1, 2, 3, 4}, {2}),
                               vector_field<std::int64_t>("right", {7, 8}),
                               vector_field<std::uint8_t>("image", {0, 255, 51, 0}, {1, 2}),
                               {"t", Tensor::full({2, 1}, 0.5), /*is_target=*/true}});
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.stored_bytes(), 16U + 16 + 4 + 8);
  const Batch batch = read_batch(dataset, std::vector<std::int64_t>{1, 0});
  EXPECT_EQ(batch["left"].shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of<float>(batch["left"]), (Floats{3, 4, 1, 2}));
  EXPECT_EQ(values_of<std::int64_t>(batch["right"]), (std::vector<std::int64_t>{8, 7}));
  EXPECT_EQ(batch["image"].shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(values_of<float>(batch["image"]), (Floats{51 / 255.0F, 0, 0, 1}));
  EXPECT_EQ(batch["t"].shape(), (Shape{2, 1}));
  EXPECT_TRUE(batch.fields()[3].is_target);
  EXPECT_EQ(stored_in(dataset, "left", 1).size(), 8U);
  const auto copy = read_dataset(*source_of(dataset));
  EXPECT_EQ(values_of<float>(all_of(*copy)["left"]), (Floats{1, 2, 3, 4}));
}

// Functions compute in float32.
TEST(TensorDataset, ConvertsDoublesToFloats) {
  const TensorDataset dataset({vector_field<double>("x", {0.1, -2, 1e300, 1e-300})});
  EXPECT_EQ(dataset.stored_bytes(), 32U);
  const Batch batch = all_of(dataset);
  ASSERT_EQ(batch["x"].dtype(), DType::float32);
  EXPECT_EQ(values_of<float>(batch["x"]),
            (Floats{0.1F, -2, std::numeric_limits<float>::infinity(), 0}));
}

TEST(TensorDataset, RejectsMismatchedTensors) {
  expect_error(ErrorKind::usage, {"'t'", "expected 3 examples", "'x'", "found 2"}, [] {
    TensorDataset({vector_field<float>("x", {1, 2, 3}), vector_field<float>("t", {1, 2})});
  });
  expect_error(ErrorKind::usage, {"two fields are named 'x'"}, [] {
    TensorDataset({vector_field<float>("x", {1, 2}), vector_field<float>("x", {1, 2})});
  });
  expect_error(ErrorKind::usage, {"'x'", "found nothing"}, [] {
    TensorDataset({{"x", Tensor()}});
  });
  expect_error(ErrorKind::usage, {"'x'", "found scalar"}, [] {
    TensorDataset({{"x", Tensor::zeros({})}});
  });
  expect_error(ErrorKind::usage, {"'t'", "labels are"}, [] {
    TensorDataset({{"t", Tensor::zeros({2}), true, 10}});
  });
  expect_error(ErrorKind::internal, {"'x'", "3 values", "shape 2"}, [] {
    vector_field<float>("x", {1, 2, 3}, {2});
  });
}

class TextFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& contents) const {
    write_plain(folder / "file", contents);
    return folder / "file";
  }
  void expect_data_error(const std::string& contents, const std::vector<std::string>& words,
                         const CsvOptions& options = {.t = {"price"}}) const {
    expect_error(ErrorKind::data, words, [&] { csv_dataset(write(contents), options); });
  }
  TemporaryFolder folder;
};

TEST_F(TextFiles, ReadTablesWithTargets) {
  const std::string table =
      "rooms, \"area, m2\",price\r\n"
      "3, 70.5 ,1e3\r\n"
      "\r\n"
      "2,\"-4\",+2.5";
  for (const bool is_packed : {false, true}) {
    (is_packed ? write_gzip : write_plain)(folder / "table", table);
    const auto dataset = csv_dataset(folder / "table", {.t = {"price"}});
    const Batch batch = all_of(*dataset);
    EXPECT_EQ(batch["x"].shape(), (Shape{2, 2}));
    EXPECT_EQ(values_of<float>(batch["x"]), (Floats{3, 70.5, 2, -4}));
    EXPECT_EQ(batch["t"].shape(), (Shape{2, 1}));
    EXPECT_EQ(values_of<float>(batch["t"]), (Floats{1000, 2.5}));
    EXPECT_TRUE(batch.fields()[1].is_target);
  }
  const Batch chosen = all_of(*csv_dataset(folder / "table", {.x = {"price", "rooms"}}));
  EXPECT_EQ(values_of<float>(chosen["x"]), (Floats{1000, 3, 2.5, 2}));
  EXPECT_FALSE(chosen.has("t"));
}

TEST_F(TextFiles, ReadTablesWithLabels) {
  const CsvOptions options{.t = {"kind"}, .classes = 3, .separator = ';'};
  const Batch batch = all_of(*csv_dataset(write("kind;a\n2;1\n0;2\n"), options));
  EXPECT_EQ(batch["t"].shape(), Shape{2});
  EXPECT_EQ(values_of<std::int32_t>(batch["t"]), (Ints{2, 0}));
  EXPECT_EQ(values_of<float>(batch["x"]), (Floats{1, 2}));
  expect_data_error("kind;a\n2;1\n3;2\n",
                    {"line 3, column 'kind'", "an integer from 0 to 2, found '3'"}, options);
  expect_error(ErrorKind::usage, {"one column of labels, found 2"}, [&] {
    open_csv(write("a,b\n"), {.t = {"a", "b"}, .classes = 2});
  });
}

TEST_F(TextFiles, NameLineAndColumnOfTableErrors) {
  expect_data_error("", {"file:", "header line", "found nothing"});
  expect_data_error("a,b\n1,2\n", {"a column 'price', found a, b"});
  expect_data_error("a,price\n1,2\n\n1,x\n",
                    {"file: line 4, column 'price': expected a number, found 'x'"});
  expect_data_error("a,price\n1,\n", {"line 2, column 'price'", "found ''"});
  expect_data_error("a,price\n1,nan\n", {"line 2, column 'price'", "found 'nan'"});
  expect_data_error("a,price\n1,1e99\n", {"line 2", "found '1e99'"});
  expect_data_error("a,price\n1,2,3\n", {"line 2: expected 2 values", "found 3"});
  expect_data_error("a,price\n\"1,2\n", {"line 2, value 1", "closing quote"});
  expect_data_error("a,price\n\"1\"2,2\n", {"line 2, value 1", "found '2,2'"});
  expect_error(ErrorKind::missing, {"nowhere.csv"}, [&] { csv_dataset(folder / "nowhere.csv"); });
  // Only a header line: no examples.
  EXPECT_EQ(csv_dataset(write("a,price\n"), {.t = {"price"}})->size(), 0);
}

// As spreadsheets begin UTF-8.
TEST_F(TextFiles, IgnoreAByteOrderMark) {
  for (const char* const header : {"a,price", "\"a\",\"price\"", "\"a, b\",price"}) {
    const auto dataset =
        csv_dataset(write(std::string("\xEF\xBB\xBF") + header + "\n1,2\n"), {.t = {"price"}});
    EXPECT_EQ(values_of<float>(all_of(*dataset)["x"]), Floats{1}) << header;
  }
  const auto first = csv_dataset(write("\xEF\xBB\xBF\"price\",a\n1,2\n"), {.t = {"price"}});
  EXPECT_EQ(values_of<float>(all_of(*first)["t"]), Floats{1});
}

TEST_F(TextFiles, AcceptUnderflowButNotOverflow) {
  const auto read = [&](const std::string& numbers) {
    return values_of<float>(all_of(*csv_dataset(write("a\n" + numbers)))["x"]);
  };
  EXPECT_EQ(read("1e-50\n-1e-320\n1e-40\n+1e-5000\n0.0000000000000000000000000000000000000000"
                 "00000000001\n"),
            (Floats{0, 0, 1e-40F, 0, 0}));
  for (const char* const large : {"1e39", "-1e39", "1e400", "1e5000", "inf", "-inf", "1e-50x"})
    expect_error(ErrorKind::data, {"line 2, column 'a'", large}, [&] { read(large); });
}

TEST_F(TextFiles, TreatBlankLinesAsEmpty) {
  const auto table = csv_dataset(write("  \na,price\n \t\n1,2\n\t\r\n3,4\n   "), {.t = {"price"}});
  EXPECT_EQ(values_of<float>(all_of(*table)["x"]), (Floats{1, 3}));
  const auto tokens = read_dataset(*open_token_lines(write(" \n1 2\n\t\n3\n"), 4));
  EXPECT_EQ(values_of<std::int64_t>(all_of(*tokens).lengths("x")),
            (std::vector<std::int64_t>{2, 1}));
  // A label alone is not an example.
  const auto labelled = [&](auto&& open) {
    expect_error(ErrorKind::data, {"line 2: expected a sequence after the label, found none"},
                 [&] { read_dataset(*open(write("1 2\n1 \n"))); });
  };
  labelled([](const auto& path) { return open_token_lines(path, 4, {.classes = 2}); });
  labelled([](const auto& path) { return open_text_lines(path, {.classes = 2}); });
}

TEST_F(TextFiles, RejectDuplicateColumns) {
  expect_data_error("price,a,price\n1,2,3\n", {"file", "two columns are named 'price'"});
  // Those that are not asked for by name may have any.
  EXPECT_EQ(
      values_of<float>(all_of(*csv_dataset(write("a,a,price\n1,2,3\n"), {.t = {"price"}}))["x"]),
      (Floats{1, 2}));
  const auto refused = [&](const CsvOptions& options) {
    expect_error(ErrorKind::usage, {"column 'a' is asked for twice"},
                 [&] { open_csv(write("a,b\n1,2\n"), options); });
  };
  refused({.x = {"a", "b"}, .t = {"a"}});
  refused({.x = {"a", "a"}});
  refused({.t = {"a", "a"}});
}

TEST_F(TextFiles, RejectFilesThatChangeMeanwhile) {
  // Longer than what is read at a time.
  constexpr std::int64_t count = 30'000;
  std::string table = "number\n";
  for (std::int64_t i = 0; i < count; ++i) table += "1234567\n";
  RecordBlock block;
  const auto shorter = open_csv(write(table));
  EXPECT_EQ(shorter->header().count, count);
  std::filesystem::resize_file(folder / "file", 8 * 20'000);
  expect_error(ErrorKind::data, {"another line", "was the file changed"},
               [&] { shorter->read(count, block); });
  const auto longer = open_csv(write(table));
  std::ofstream(folder / "file", std::ios::app) << "1\n";
  expect_error(ErrorKind::data, {"expected the end", "found another line"},
               [&] { longer->read(count, block); });
}

TEST_F(TextFiles, ReadLinesOfAnyLength) {
  const std::string longest(200'000, 'a');
  TextFile file(write(longest + "\n\n\nb\r\n" + longest));
  std::string_view line;
  ASSERT_TRUE(file.next(line));
  EXPECT_EQ(line, longest);
  ASSERT_TRUE(file.next(line));
  EXPECT_EQ(line, "b");
  EXPECT_EQ(file.number(), 4);
  ASSERT_TRUE(file.next(line));
  EXPECT_EQ(line, longest);
  EXPECT_FALSE(file.next(line));
  EXPECT_FALSE(file.next(line));
  EXPECT_EQ(TextFile::count_lines(folder / "file"), 3);
  std::string cut = longest;
  write_gzip(folder / "packed", cut);
  std::filesystem::resize_file(folder / "packed",
                               std::filesystem::file_size(folder / "packed") - 4);
  expect_error(ErrorKind::data, {"packed"}, [&] { TextFile::count_lines(folder / "packed"); });
}

TEST_F(TextFiles, GivePaddedTokenBatchesWithLengths) {
  const auto path = write("1 2 3\n9\n\n 4\t5 \n");
  const auto dataset =
      read_dataset(*open_token_lines(path, 10, {.longest = 4, .padding = -1, .pad_to = 4}));
  const Batch batch = all_of(*dataset);
  EXPECT_EQ(batch["x"].shape(), (Shape{3, 4}));
  EXPECT_EQ(values_of<std::int32_t>(batch["x"]), (Ints{1, 2, 3, -1, 9, -1, -1, -1, 4, 5, -1, -1}));
  EXPECT_EQ(values_of<std::int64_t>(batch.lengths("x")), (std::vector<std::int64_t>{3, 1, 2}));
  const auto fails = [&](std::int64_t vocabulary, const SequenceOptions& options,
                         const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words,
                 [&] { read_dataset(*open_token_lines(path, vocabulary, options)); });
  };
  fails(9, {}, {"line 2: value 1: expected an integer from 0 to 8, found '9'"});
  fails(10, {.longest = 2}, {"line 1: field 'x': expected at most 2", "found 3"});
  expect_error(ErrorKind::usage, {"vocabulary"}, [&] { open_token_lines(path, 0); });
}

TEST_F(TextFiles, ReadTextsAsBytes) {
  const auto source = open_text_lines(write("1\tno\n0  yes \xC3\xA9\n"), {.classes = 2});
  const auto dataset = read_dataset(*source);
  EXPECT_EQ(stored_in(*dataset, "x", 0).size(), 2U) << "a byte each";
  const Batch batch = all_of(*dataset);
  EXPECT_EQ(values_of<std::int32_t>(batch["x"]),
            (Ints{'n', 'o', 0, 0, 0, 0, 'y', 'e', 's', ' ', 0xC3, 0xA9}));
  EXPECT_EQ(values_of<std::int32_t>(batch["t"]), (Ints{1, 0}));
  expect_error(ErrorKind::data, {"line 1, label", "0 to 0, found '1'"},
               [&] { read_dataset(*open_text_lines(folder / "file", {.classes = 1})); });
}

}  // namespace
}  // namespace tasuki

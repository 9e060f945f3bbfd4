// Names of arrays in files of other frameworks.
#include "saving/name_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.hpp"
#include "saving/npz.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::vector<std::string> names_of(const NameMap& map, const std::string& model_name) {
  std::vector<std::string> names;
  for (const NameMap::Name& each : map.names_in_file(model_name)) names.push_back(each.name);
  return names;
}

TEST(NameMap, FillsStarsInTheirOrder) {
  const NameMap map = NameMap::parse(
      "# comment\n\n"
      "h.*.mlp.*.weight = blocks/*/*/W transposed\r\n"
      "*.weight = */W # the general one\n"
      "mask.* = -",
      "map");
  const auto found = map.names_in_file("blocks/3/fc/W");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "h.3.mlp.fc.weight");
  EXPECT_TRUE(found[0].is_transposed);
  EXPECT_EQ(found[1].name, "blocks.3.fc.weight");
  EXPECT_FALSE(found[1].is_transposed);
  EXPECT_THAT(names_of(map, "blocks//W"), ElementsAre("blocks..weight"));
  EXPECT_THAT(names_of(map, "/W"), ElementsAre("/W"));  // a star is at least one character
  EXPECT_THAT(names_of(map, "l1/b"), ElementsAre("l1/b"));
  EXPECT_TRUE(map.ignores("mask.0"));
  EXPECT_FALSE(map.ignores("mask."));
  EXPECT_FALSE(map.ignores("l1.weight"));
  const std::string endless = std::string(100'000, 'x') + "/W";
  EXPECT_THAT(names_of(map, endless), ElementsAre(endless));
  const auto back = map.names_in_model("h.3.mlp.fc.weight");
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].name, "blocks/3/fc/W");
  EXPECT_TRUE(back[0].is_transposed);
  EXPECT_EQ(back[1].name, "h/3/mlp/fc/W");
}

TEST(NameMap, SaysWhatAModelMayKeep) {
  const NameMap map =
      NameMap::parse("\xef\xbb\xbf- = fc/*\n*.weight = */W\n*.n = */N optional\n", "map");
  EXPECT_THAT(names_of(map, "fc/W"), ElementsAre());
  EXPECT_TRUE(map.may_lack("fc/W"));
  EXPECT_TRUE(map.may_lack("bn/N"));
  EXPECT_FALSE(map.may_lack("l1/W"));
  EXPECT_THAT(names_of(map, "bn/N"), ElementsAre("bn.n"));
}

TEST(NameMap, RefusesOtherLines) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] { NameMap::parse(text, "map.txt"); });
  };
  EXPECT_THAT(refusal("\na -> b"), HasSubstr("map.txt, line 2: expected \"NAME IN FILE = MODEL'S"));
  EXPECT_THAT(refusal("a = "), HasSubstr("found a = "));
  EXPECT_THAT(refusal("a = b c"), HasSubstr("line 1: expected"));
  EXPECT_THAT(refusal("*.a = b"), HasSubstr("as many stars on both sides"));
  EXPECT_THAT(refusal("*.*.*.* = -"), HasSubstr("at most 3"));
  EXPECT_THAT(refusal("a = b optional optional"), HasSubstr("line 1: expected"));
  EXPECT_EQ(refusal("a = b optional transposed"), "(nothing thrown)");
  EXPECT_EQ(refusal("a.*.*.* = -"), "(nothing thrown)");
}

class MappedFile : public ::testing::Test {
 protected:
  MappedFile() {
    Tensor matrix = Tensor::empty({2, 3});
    for (std::int64_t i = 0; i < 6; ++i) matrix.data<float>()[i] = static_cast<float>(i);
    write_npz(folder / "file", {{"l1.weight", matrix},
                                {"l1.bias", Tensor::full({2}, 1)},
                                {"bn.weight", Tensor::full({2}, 2)},
                                {"bn.num_batches_tracked", Tensor::zeros({}, DType::int64)},
                                {"head.weight", Tensor::full({2}, 3)},
                                {"mask", Tensor::zeros({1})}});
    file = std::make_unique<NpzFile>(folder / "file");
  }
  TemporaryFolder folder;
  std::unique_ptr<NpzFile> file;
};

TEST_F(MappedFile, HasTheModelsNamesAndWhatIsLeft) {
  const NameMap map = NameMap::parse(
      "*.weight = */W transposed\n"
      "*.weight = */gamma\n"
      "*.bias = */b\n"
      "*.num_batches_tracked = */N\n"
      "mask = -\n"
      "l1.bias = tied/b\n",
      "map");
  const MappedSource source(*file, map, {"l1/W", "l1/b", "bn/gamma", "bn/beta", "bn/N", "tied/b"});
  EXPECT_THAT(source.names(),
              ElementsAre("l1/W", "l1/b", "bn/gamma", "bn/N", "tied/b", "head.weight"));
  EXPECT_EQ(source.find("l1/W")->shape, (Shape{3, 2}));
  const Tensor w = std::get<Tensor>(source.read("l1/W"));
  EXPECT_THAT(w.span<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(source.find("bn/gamma")->shape, (Shape{2}));
  EXPECT_EQ(std::get<Tensor>(source.read("tied/b")).span<float>()[1], 1);
  EXPECT_FALSE(source.find("bn/beta"));
  EXPECT_THAT(error_of([&] { source.read("bn/beta"); }), HasSubstr("has no entry for bn/beta"));
}

TEST_F(MappedFile, IsMappedWhereItHasNoneOfTheModelsNames) {
  EXPECT_EQ(fitting_map(*file, {"l1/W", "l1/b", "bn/gamma"}), "torchvision");
  EXPECT_EQ(fitting_map(*file, {"l1.weight", "l1.bias"}), tasuki_names);
  EXPECT_EQ(fitting_map(*file, {"l2/W"}), tasuki_names);
}

TEST_F(MappedFile, TransposesOnlyMatrices) {
  const MappedSource source(*file, NameMap::parse("l1.bias = l1/b transposed", "map"), {"l1/b"});
  EXPECT_THAT(error_of([&] { source.read("l1/b"); }),
              HasSubstr("l1.bias in " + file->path().string() +
                        ": expected a matrix, because it is transposed, found 2"));
}

TEST(NameMapFile, IsReadByItsNameOrPath) {
  const TemporaryFolder folder;
  write_file(folder / "map", "a = b");
  EXPECT_THAT(names_of(read_name_map((folder / "map").string()), "b"), ElementsAre("a"));
  EXPECT_THAT(names_of(read_name_map("gpt2"), "blocks/11/qkv/W"),
              ElementsAre("transformer.h.11.attn.c_attn.weight", "h.11.attn.c_attn.weight"));
  EXPECT_THAT(error_of([&] { read_name_map((folder / "none").string()); }),
              HasSubstr("cannot read"));
}

}  // namespace
}  // namespace tasuki

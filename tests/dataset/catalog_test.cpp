// Where programs look for data.
#include "dataset/catalog.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;
namespace fs = std::filesystem;

// An environment variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const fs::path& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class Catalog : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  Variable home{"HOME", folder / "home"};
  Variable data{"TASUKI_DATA", folder / "data"};
};

TEST_F(Catalog, SearchesVariableThenCache) {
  const fs::path cached = folder / "home/.cache/tasuki/cifar10";
  const fs::path named = folder / "data/cifar10";
  fs::create_directories(cached);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(find_data_folder("cifar10"), cached);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(named.string() + " is not a folder; using " + cached.string()),
            std::string::npos)
      << said;
  fs::create_directories(named);
  EXPECT_EQ(find_data_folder("cifar10"), named);
  EXPECT_EQ(find_data_folder("cifar10", folder.path()), folder.path());
}

TEST_F(Catalog, UsesDebiansFashionMnistForMnist) {
  const char* const package = "/usr/share/datasets/fashion-mnist";
  for (const char* name : {"mnist", "fashion-mnist"}) {
    if (fs::is_directory(package)) {
      EXPECT_EQ(find_data_folder(name), package);
    } else {
      expect_error(ErrorKind::missing,
                   {std::string("scripts/get_data.sh ") + name,
                    "apt-get install dataset-fashion-mnist", (folder / "data").string()},
                   [&] { find_data_folder(name); });
    }
  }
}

TEST_F(Catalog, ExplainsHowToGetMissingData) {
  for (const char* name : {"cifar10", "cifar100"})
    expect_error(ErrorKind::missing, {name, fmt::format("scripts/get_data.sh {}", name), "--data"},
                 [&] { find_data_folder(name); });
  const Variable no_home("HOME", ""), no_data("TASUKI_DATA", "");
  expect_error(ErrorKind::missing, {"cifar10", "HOME are not set", "--data"},
               [] { find_data_folder("cifar10"); });
  expect_error(ErrorKind::missing, {(folder / "nowhere").string(), "mnist"},
               [&] { find_data_folder("mnist", folder / "nowhere"); });
}

TEST_F(Catalog, RejectsUnknownNames) {
  expect_error(ErrorKind::usage, {"'minst'", "mnist, fashion-mnist, cifar10, cifar100"},
               [] { find_data_folder("minst"); });
  expect_error(ErrorKind::usage, {"'minst'"},
               [&] { open_dataset("minst", folder.path(), DataSplit::train); });
}

TEST_F(Catalog, NamesKnownClasses) {
  EXPECT_EQ(class_names("fashion-mnist", {}).size(), 10u);
  EXPECT_TRUE(class_names("mnist", {}).empty());
  const fs::path data = folder.path();
  EXPECT_TRUE(class_names("cifar10", data).empty());
  write_plain(data / "batches.meta.txt", "airplane\nautomobile\n\n");
  EXPECT_EQ(class_names("cifar10", data), (std::vector<std::string>{"airplane", "automobile"}));
  for (const char* const name : {"dog", "cat"}) fs::create_directories(data / "train" / name);
  EXPECT_EQ(class_names("images", data), (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(Catalog, FindsMnistUnderCommonNames) {
  for (const std::string dot : {"-idx", ".idx"}) {
    const TemporaryFolder files;
    write_gzip(files / ("train-images" + dot + "3-ubyte.gz"), idx_images(6, 2, 2));
    write_plain(files / ("train-labels" + dot + "1-ubyte"), idx_labels(6));
    write_plain(files / ("t10k-images" + dot + "3-ubyte"), idx_images(4, 2, 2));
    write_gzip(files / ("t10k-labels" + dot + "1-ubyte.gz"), idx_labels(4));
    for (const char* name : {"mnist", "fashion-mnist"}) {
      EXPECT_EQ(open_dataset(name, files.path(), DataSplit::train)->header().count, 6);
      EXPECT_EQ(open_dataset(name, files.path(), DataSplit::test)->header().count, 4);
    }
  }
  expect_error(ErrorKind::missing, {folder.path().string(), "train-images-idx3-ubyte"},
               [&] { open_dataset("mnist", folder.path(), DataSplit::train); });
}

}  // namespace
}  // namespace tasuki

// Lines of texts and of files, whatever their size.
#include "core/line_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

#include <vector>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(LineReader&& reader) {
  std::vector<std::string> lines;
  while (const auto line = reader.next())
    lines.push_back(std::string(line->text) + (line->is_whole ? "" : " in part"));
  return lines;
}

class LineReaders : public ::testing::Test {
 protected:
  Descriptor opened() const { return Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC)); }
  testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "file";
};

TEST_F(LineReaders, GiveEachLine) {
  for (const std::string text : {"", "\n", "a", "a\n", "\na\n\nbc"}) {
    write_file(file, text);
    EXPECT_EQ(lines_of(LineReader(opened(), file)), lines_of(LineReader(text))) << text;
  }
  EXPECT_THAT(lines_of(LineReader("")), ElementsAre());
  EXPECT_THAT(lines_of(LineReader("\na\n\nbc")), ElementsAre("", "a", "", "bc in part"));
}

TEST_F(LineReaders, JoinPieces) {
  const std::vector<std::string> lines = {std::string(300 << 10, 'a'), std::string(1 << 20, 'b'),
                                          "c", std::string((256 << 10) - 1, 'd')};
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  write_file(file, text);
  EXPECT_EQ(lines_of(LineReader(opened(), file)), lines);
}

TEST_F(LineReaders, SayWhatTheyCannotRead) {
  write_file(file, "");
  std::filesystem::resize_file(file, 20 << 20);
  EXPECT_THAT(testing::error_of([&] { LineReader(opened(), file).next(); }),
              HasSubstr("file: a line has more than 16 MiB"));
  LineReader failing(Descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC)), file);
  try {
    failing.next();
    FAIL() << "the file is open for writing only";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_THAT(error.what(), HasSubstr("cannot read " + file.string() + ": "));
  }
}

}  // namespace
}  // namespace tasuki

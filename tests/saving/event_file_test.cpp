// Event files: bytes as TensorBoard's own classes write them, names in order, and what a resumed
// run removes.
#include "saving/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/file.hpp"
#include "saving/tensorboard/crc32c.hpp"
#include "tests/support/event_records.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::records_in;
using testing::scalars_in;
using testing::TemporaryFolder;

// RFC 3720, B.4, and the check value of the catalogues of CRCs.
TEST(Crc32c, HasThePublishedValues) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending += static_cast<char>(i);
    descending += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(crc32c(descending), 0x113FDB5CU);
}

std::string hex(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return digits;
}

class EventFiles : public ::testing::Test {
 protected:
  std::filesystem::path only_file() const {
    const auto files = event_files_in(place);
    EXPECT_EQ(files.size(), 1U);
    return files.at(0);
  }
  std::size_t count() const { return event_files_in(place).size(); }

  TemporaryFolder folder;
  const std::filesystem::path place = folder / "new/tensorboard";
};

// Times are the first field of an event, and the last one of settings.
TEST_F(EventFiles, HaveTheBytesOfTensorBoardsWriter) {
  const auto expected = testing::json_in(EVENT_RECORDS);
  EventFile events(place, 41);
  events.add_scalars(std::vector<EventFile::Scalar>{{"main/loss", 0.25}, {"lr", -1e-3}}, 300, 1.5);
  const Tensor values = Tensor::empty({5});
  std::ranges::copy(std::vector<float>{1, 10, 65, std::nanf(""), INFINITY},
                    values.span<float>().begin());
  events.add_histogram("weights/l1/W", values, 7);
  events.add_text("note", "a *text*", 8);
  events.add_settings({{"batchsize", 100.0}, {"lars", false}, {"optimizer", std::string("adam")}});
  events.flush();
  const std::vector<std::string> records = records_in(only_file());
  constexpr std::size_t time = 9;
  const std::vector<std::string> names = {"version", "restart", "scalars", "histogram", "text"};
  ASSERT_EQ(records.size(), names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(hex(records[i].substr(time)), expected.at(names[i])) << names[i];
  EXPECT_EQ(hex(records[2].substr(0, time)), "09000000000000f83f");
  // Lengths differ by that of the time.
  const std::string settings = hex(records.back().substr(time)), plain = expected.at("settings");
  const std::string contents = plain.substr(plain.find("0a160a09626174636873697a65"));
  EXPECT_NE(settings.find(contents), settings.npos) << settings;
  EXPECT_EQ(settings.find(contents) + contents.size() + 2 * time, settings.size());
}

TEST_F(EventFiles, HaveMaskedChecksums) {
  EventFile events(place);
  events.add_scalar("a", 1, 2);
  events.flush();
  const std::string bytes = read_file(only_file());
  const std::string record = records_in(only_file()).front();
  const auto number = [](std::uint32_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  EXPECT_EQ(bytes.substr(8, 4), number(masked_crc32c(bytes.substr(0, 8))));
  EXPECT_EQ(bytes.substr(12 + record.size(), 4), number(masked_crc32c(record)));
  // By TensorFlow's definition.
  const std::uint32_t crc = crc32c(record);
  EXPECT_EQ(masked_crc32c(record), ((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
}

TEST_F(EventFiles, CountValuesInIntervals) {
  EventFile events(place);
  const auto add = [&](const std::vector<float>& numbers) {
    const Tensor values = Tensor::empty({std::ssize(numbers)});
    std::ranges::copy(numbers, values.span<float>().begin());
    events.add_histogram("h", values, 1);
  };
  add({std::nanf(""), INFINITY});  // nothing to count
  add({3, 3, 3});
  add({std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()});
  events.flush();
  const auto records = records_in(only_file());
  ASSERT_EQ(records.size(), 4U);  // after the version and the session's start
  const auto fields_of = [](const std::string& record) {
    const auto event = testing::fields_of(record);
    const auto value = testing::fields_of(testing::fields_of(event.back().bytes).at(0).bytes);
    return testing::fields_of(value.back().bytes);
  };
  const auto number = [](const testing::EventField& field) {
    return std::bit_cast<double>(field.value);
  };
  const auto same = fields_of(records[2]);
  EXPECT_EQ(number(same[0]), 2.5);
  EXPECT_EQ(number(same[1]), 3.5);
  EXPECT_EQ(number(same[2]), 3);
  const auto wide = fields_of(records[3]);
  EXPECT_EQ(number(wide[2]), 2);
  EXPECT_EQ(wide.back().bytes.size(), 64 * sizeof(double));
}

TEST_F(EventFiles, GoOnBehindAPosition) {
  EventPosition position;
  {
    EventFile events(place);
    events.add_scalar("a", 1, 1);
    position = events.position();  // also of what waits in memory
    events.add_scalar("a", 2, 2);
    events.flush();
  }
  { const EventFile other(place, 2); }
  write_file(place / "events.out.tfevents.9999999999.other", "another program's");
  const std::filesystem::path first = event_files_in(place).at(0);
  EXPECT_EQ(first.filename(), position.file);
  ASSERT_EQ(count(), 2U);
  for (int i = 0; i < 2; ++i) {  // the second time, nothing is left to remove
    cut_event_files(place, position);
    EXPECT_EQ(count(), 1U);
    EXPECT_EQ(std::filesystem::file_size(first), position.bytes);
  }
  EventFile next(place, 2);
  next.add_scalar("a", 3, 2);
  next.flush();
  ASSERT_EQ(count(), 2U);
  EXPECT_EQ(records_in(first).size(), 3U);
  cut_event_files(place, {"events.out.tfevents.0000000001.of_another_run.tasuki", 0});
  ASSERT_EQ(count(), 2U);
  cut_event_files(place, {});
  EXPECT_EQ(count(), 0U);
  EXPECT_TRUE(std::filesystem::exists(place / "events.out.tfevents.9999999999.other"));
}

// As many as are made within a second.
TEST_F(EventFiles, HaveNamesInTheirOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back(EventFile(place).position().file);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST_F(EventFiles, GoOnInAnotherFolder) {
  EventFile events(place);
  events.add_scalar("a", 1, 1);
  std::filesystem::remove_all(place);
  EXPECT_FALSE(events.is_there());
  events.move_to(folder / "other");
  events.flush();
  EXPECT_TRUE(events.is_there());
  EXPECT_THAT(scalars_in(folder / "other"), ElementsAre(Pair("a", ElementsAre(Pair(1, 1.0F)))));
}

}  // namespace
}  // namespace tasuki

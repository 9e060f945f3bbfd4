// What a device writes step by step, and when the host reads it.
#include "training/recording/journal.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "training/recording/kind_report.hpp"

namespace tasuki {
namespace {

Tensor scalar(double value, DType dtype = DType::float64) {
  return Tensor::full({}, value, dtype);
}

// Step i reports i and 2 i.
JournalSum write_step(Journal& journal, std::int64_t column, double factor) {
  const std::int64_t row = journal.open_row();
  const Tensor number = Tensor::from(std::span(&row, 1), Shape{});
  const auto value = static_cast<double>(row);
  const Tensor scalars[] = {scalar(value, DType::float32), scalar(2 * value, DType::int64)};
  journal.post(number, scalars);
  return journal.cell(column, factor);
}

void add(Observation& seen, const JournalSum& sum, std::int64_t count) {
  seen.add_sum("value", 0.0, count);
  ObservationParts::add_journal(seen, "value", ObservationParts::Part::sum, sum);
}

TEST(Journal, KeepsSumsCorrectHoweverLateTheyAreRead) {
  Journal journal(Device::cpu(), 2);
  Observation epoch, odd;
  double expected = 0, expected_odd = 0;
  for (int step = 0; step < 5000; ++step) {  // several times round the ring
    Observation now;
    add(now, write_step(journal, 1, 3), 2);
    epoch.add(now);
    expected += 2.0 * step * 3;
    if (step % 2 == 0) continue;
    odd.add(now, "odd/");
    expected_odd += 2.0 * step * 3;
  }
  EXPECT_TRUE(epoch.is_on_device());
  EXPECT_EQ(epoch.values().at("value").sum(), expected);
  EXPECT_EQ(epoch.values().at("value").count, 10000);
  EXPECT_FALSE(epoch.is_on_device());
  EXPECT_EQ(odd.values().at("odd/value").sum(), expected_odd);
}

// For example tokens, of which batches of one shape have different numbers.
TEST(Journal, AcceptsCountsOnTheDevice) {
  Journal journal(Device::cpu(), 2);
  Observation seen;
  std::int64_t expected = 0;
  for (int step = 0; step < 7; ++step) {
    seen.add_sum("value", 1.5, 0);
    ObservationParts::add_journal(seen, "value", ObservationParts::Part::count,
                                  write_step(journal, 1, 1));
    expected += 2 * step;
  }
  EXPECT_TRUE(seen.is_on_device());
  EXPECT_EQ(seen.values().at("value").count, expected);
  EXPECT_EQ(seen.values().at("value").sum(), 7 * 1.5);
}

TEST(Journal, CopiesOutliveIt) {
  Observation kept;
  {
    Journal journal(Device::cpu(), 2);
    for (int step = 0; step < 3; ++step) add(kept, write_step(journal, 0, 1), 1);
  }
  EXPECT_EQ(kept.values().at("value").sum(), 0 + 1 + 2);
}

TEST(Journal, RejectsStepsThatNeverReport) {
  Journal journal(Device::cpu(), 1);
  journal.open_row();
  Observation seen;
  add(seen, journal.cell(0, 1), 1);
  EXPECT_THROW(seen.values(), Error);
}

// In the middle of a page, and more than once.
TEST(Journal, GrowsBetweenSteps) {
  Journal journal(Device::cpu(), 2);
  Observation seen;
  double expected = 0;
  for (int step = 0; step < 5000; ++step) {
    if (step == 100 || step == 700 || step == 3072)
      journal = journal.widened(journal.columns() + 3);
    add(seen, write_step(journal, 1, 1), 1);
    expected += 2.0 * step;
  }
  EXPECT_EQ(journal.columns(), 11);
  EXPECT_EQ(seen.values().at("value").sum(), expected);
}

TEST(Journal, RejectsMoreNumbersThanColumns) {
  Journal journal(Device::cpu(), 1);
  const Tensor scalars[] = {scalar(1), scalar(2)};
  EXPECT_THROW(journal.post(scalar(0, DType::int64), scalars), Error);
}

}  // namespace
}  // namespace tasuki

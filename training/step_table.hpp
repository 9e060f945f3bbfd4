// StepTable: the file of --log-steps, as CSV or JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training/step_rows.hpp"

namespace tasuki {

class GrowingFile;
class LineReader;

enum class StepFormat : std::uint8_t { csv, json_lines };

// By the ending, .csv or .jsonl; nothing for other names.
std::optional<StepFormat> step_format_of(const std::filesystem::path& file);

// A row that a run has written. Times make the rows of different runs differ.
struct StepMark {
  std::int64_t iteration = 0;  // 0: none
  std::uint64_t hash = 0;      // of its text, without the commas for columns that came later

  friend bool operator==(const StepMark&, const StepMark&) = default;
};

// What a file has of the steps up to an iteration.
struct KeptSteps {
  std::vector<std::string> columns;  // of CSV
  std::int64_t bytes = 0;            // the beginning of the text that has them
  StepMark last;
};
// Reads no further than it must. Anything that StepTable would not have written is an error of kind
// data that names `place`, the line and what to do; only the last line may be there in part, and
// is not kept then, be it the header. The rows that a CSV file begins with stay as they are: fields
// beyond the first are not examined. So is a text with whole lines that lacks the row `mark`:
// another run has written it, or it was cut.
KeptSteps steps_up_to(std::int64_t iteration, LineReader& lines, StepFormat format,
                      const std::string& place, const StepMark& mark = {});

// Every row has "iteration", "epoch", "elapsed_time", the times (StepRow::times) and, if there is
// one, "lr"; then what was reported. In CSV, a first line names the columns, and what a step lacks
// is empty; a value of a new name adds a column to all rows. In JSON lines each row is an object,
// with null for numbers that are not finite.
class StepTable {
 public:
  // Goes on in a file that a StepTable has written, behind the steps up to `iteration`, which must
  // have the row `mark`; makes it if it is missing or empty.
  StepTable(std::filesystem::path file, StepFormat format, std::int64_t iteration,
            const StepMark& mark = {});
  ~StepTable();
  StepTable(StepTable&&) noexcept;
  StepTable& operator=(StepTable&&) noexcept;

  // Kept in memory, as text, until flush().
  void add(const StepRow& row);
  // Bytes of that text.
  std::int64_t waiting() const;
  // If the file cannot be written, an error of kind cannot_write says why, and the next call tries
  // again. A file that was removed is made anew; one that was replaced is such an error.
  void flush();
  // Waits until what was flushed is on disk; errors as of flush().
  void sync() const;
  // The last row in the file.
  const StepMark& written() const { return written_; }

 private:
  void append(std::int64_t iteration, const std::string& row);
  void make_anew_if_removed();
  // Writes all rows, also those in memory, below a first line with all columns.
  void widen();

  std::filesystem::path path_;
  StepFormat format_;
  // Of CSV: those of the file, and behind them those that rows in memory have added.
  std::vector<std::string> columns_;
  std::size_t columns_in_file_ = 0;
  StepMark added_, written_;  // the last rows in memory and in the file
  std::unique_ptr<GrowingFile> file_;
};

}  // namespace tasuki

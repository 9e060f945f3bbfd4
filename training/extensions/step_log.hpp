// StepLog: a row for each step, in a CSV file or as JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "training/extensions/step_writer.hpp"
#include "training/step_table.hpp"

namespace tasuki {

// Rank 0 writes the file, at each entry of the log and at the end (step_writer.hpp): a StepTable,
// whose format is that of the file's ending; another ending is a usage error. Attach it after
// LogReport. A run that is resumed removes the rows of later iterations. A file that is there and
// that no StepTable has written is an error before the first iteration; so is one that a run which
// begins anew finds, unless it `may_replace` that.
//
// A snapshot has the last row on disk. If the file lacks it on a resume, it is another run's or was
// cut, which is an error, too; a file that is missing or empty is begun.
class StepLog : public StepWriter {
 public:
  explicit StepLog(const std::filesystem::path& file, bool may_replace = false);

  std::string default_name() const override { return "StepLog"; }
  void finalize(Trainer& trainer) override;
  void serialize(const Serializer& serializer) override;

 protected:
  void open(Trainer& trainer) override;
  void add_row(const StepRow& row) override { table_->add(row); }
  void write(Trainer& /*trainer*/) override { table_->flush(); }
  void note_save() override;
  std::int64_t waiting() const override { return table_->waiting(); }
  std::string place(const Trainer& /*trainer*/) const override { return file_.string(); }

 private:
  std::filesystem::path file_;
  StepFormat format_;
  bool may_replace_;
  std::optional<StepTable> table_;
  StepMark saved_;
};

}  // namespace tasuki

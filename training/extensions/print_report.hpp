// PrintReport: LogReport's entries as a table on standard output, from rank 0.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "training/extensions/log_report.hpp"

namespace tasuki {

class TableLayout;

// Chainer's columns, left-aligned, at least 10 characters wide, numbers as %g; narrower or fewer
// columns on a narrow terminal. The header is printed once, and again when the width of the
// terminal changes; a resumed run prints the earlier rows as well.
class PrintReport : public Extension {
 public:
  explicit PrintReport(std::vector<std::string> columns, std::string log_report = "LogReport",
                       std::FILE* out = stdout);
  ~PrintReport() override;

  std::string default_name() const override { return "PrintReport"; }
  // Runs after LogReport, in the same iteration.
  int priority() const override { return priority_reader - 10; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override { run(trainer); }

 private:
  void print(const std::string& line);
  void fit_to_terminal();

  std::vector<std::string> columns_;
  std::string log_report_;
  std::FILE* out_;
  std::unique_ptr<TableLayout> layout_;  // null until the header is printed
  const LogReport* log_ = nullptr;
  std::size_t printed_ = 0;  // entries
};

}  // namespace tasuki

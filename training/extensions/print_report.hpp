// PrintReport: LogReport's entries as a table on standard output, from rank 0.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasuki/training/extensions/log_report.hpp"

namespace tasuki {

// Chainer's columns: left-aligned, max(10, length of the name) wide, two spaces apart, numbers as
// %g (whole ones in full), blanks where an entry has no such value. The header is printed once; a
// resumed run prints the rows from before as well.
class PrintReport : public Extension {
 public:
  explicit PrintReport(std::vector<std::string> columns, std::string log_report = "LogReport",
                       std::FILE* out = stdout);

  std::string default_name() const override { return "PrintReport"; }
  // After LogReport, in the same iteration.
  int priority() const override { return priority_reader - 10; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override { run(trainer); }

  // One line each, without its newline.
  std::string header() const;
  std::string row(const nlohmann::ordered_json& entry) const;

 private:
  void print(const std::string& line);

  std::vector<std::string> columns_;
  std::string log_report_;
  std::FILE* out_;
  bool is_terminal_;
  const LogReport* log_ = nullptr;
  std::size_t printed_ = 0;  // entries
};

}  // namespace tasuki

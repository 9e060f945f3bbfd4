#include "tasuki/training/extensions/print_report.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/terminal.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {
namespace {

std::size_t width_of(const std::string& column) {
  return std::max<std::size_t>(10, column.size());
}

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  if (value.is_number()) return fmt::format("{:g}", value.get<double>());
  return value.is_null() ? "nan" : value.get<std::string>();
}

}  // namespace

PrintReport::PrintReport(std::vector<std::string> columns, std::string log_report, std::FILE* out)
    : columns_(std::move(columns)),
      log_report_(std::move(log_report)),
      out_(out),
      is_terminal_(is_terminal(out)) {}

std::string PrintReport::header() const {
  std::string line;
  for (const std::string& column : columns_)
    line += fmt::format("{}{:<{}}", line.empty() ? "" : "  ", column, width_of(column));
  return line;
}

std::string PrintReport::row(const nlohmann::ordered_json& entry) const {
  std::string line;
  for (const std::string& column : columns_) {
    const auto value = entry.find(column);
    line += fmt::format("{:<{}}  ", value == entry.end() ? "" : text_of(*value), width_of(column));
  }
  return line;
}

void PrintReport::print(const std::string& line) {
  // A progress bar may stand below.
  fmt::print(out_, "{}{}\n", is_terminal_ ? erase_below : "", line);
  std::fflush(out_);
}

void PrintReport::initialize(Trainer& trainer) {
  log_ = dynamic_cast<LogReport*>(trainer.find_extension(log_report_));
  if (log_ == nullptr)
    fail_everywhere(ErrorKind::usage,
                    "PrintReport prints what {} logs, but no LogReport has that name", log_report_);
  printed_ = 0;
  if (trainer.is_root()) print(header());
}

void PrintReport::run(Trainer& trainer) {
  if (!trainer.is_root()) return;
  for (; printed_ < log_->entries().size(); ++printed_) print(row(log_->entries()[printed_]));
}

}  // namespace tasuki

#include "training/extensions/print_report.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/terminal.hpp"
#include "training/extensions/table_layout.hpp"
#include "training/trainer.hpp"

namespace tasuki {

PrintReport::PrintReport(std::vector<std::string> columns, std::string log_report, std::FILE* out)
    : columns_(std::move(columns)), log_report_(std::move(log_report)), out_(out) {}

PrintReport::~PrintReport() = default;

void PrintReport::print(const std::string& line) {
  // A progress bar may be shown below.
  fmt::print(out_, "{}{}\n", moves_cursor(out_) ? erase_below : "", line);
  std::fflush(out_);
}

void PrintReport::fit_to_terminal() {
  TableLayout fitting(columns_, line_width(out_));
  if (layout_ && fitting == *layout_) return;
  layout_ = std::make_unique<TableLayout>(std::move(fitting));
  print(layout_->header());
}

void PrintReport::initialize(Trainer& trainer) {
  log_ = trainer.find_extension<LogReport>(log_report_);
  if (log_ == nullptr)
    fail_everywhere(ErrorKind::usage,
                    "PrintReport prints what {} logs, but no LogReport has that name", log_report_);
  printed_ = 0;
  layout_ = nullptr;
  if (trainer.is_root()) fit_to_terminal();
}

void PrintReport::run(Trainer& trainer) {
  if (!trainer.is_root()) return;
  for (; printed_ < log_->entries().size(); ++printed_) {
    fit_to_terminal();
    print(layout_->row(log_->entries()[printed_]));
  }
}

}  // namespace tasuki

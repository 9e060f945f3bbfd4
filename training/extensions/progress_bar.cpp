#include "training/extensions/progress_bar.hpp"

#include <algorithm>
#include <cmath>

#include "core/terminal.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

constexpr const char* up_four_lines = "\033[4A";
constexpr std::size_t longest_bar = 50;
constexpr std::size_t speed_window = 100;  // redraws

// A line with a bar that fills the room left by the other characters.
std::string bar(const char* title, double rate, std::size_t width) {
  const std::string before = fmt::format("{:>10} [", title);
  const std::string after = fmt::format("] {:6.2f}%", std::clamp(rate, 0.0, 1.0) * 100);
  const std::size_t others = before.size() + after.size();
  const std::size_t length = std::min(longest_bar, width - std::min(width, others));
  const auto marks =
      static_cast<std::size_t>(std::clamp(rate, 0.0, 1.0) * static_cast<double>(length));
  return before + std::string(marks, '#') + std::string(length - marks, '.') + after;
}

// "0:01:05", "1 day, 2:03:04".
std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e15)));
  const std::int64_t days = whole / 86400;
  const std::string clock =
      fmt::format("{}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return days == 0 ? clock : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

}  // namespace

ProgressBar::ProgressBar(double update_interval, std::FILE* out)
    : update_interval_(update_interval), out_(out) {}

std::string ProgressBar::draw(const Progress& progress, std::size_t width) {
  const auto iteration = static_cast<double>(progress.iteration);
  const double per_epoch = static_cast<double>(progress.steps_per_epoch);
  const auto& [epochs, iterations] = progress.length;
  // Remaining iterations until the nearer of two ends.
  std::optional<double> left;
  if (epochs) left = (*epochs - progress.epoch_detail) * per_epoch;
  if (iterations) {
    const double until_cut = static_cast<double>(*iterations) - iteration;
    left = left ? std::min(*left, until_cut) : until_cut;
  }
  const double to_go = std::max(0.0, left.value_or(0));
  const double total = left && iteration + to_go > 0 ? iteration / (iteration + to_go) : 0;

  std::string goal = "?";
  if (epochs) goal = fmt::format("{:g} epochs", *epochs);
  if (iterations && (!epochs || to_go < (*epochs - progress.epoch_detail) * per_epoch))
    goal = fmt::format("{} iterations", *iterations);
  std::string speed = "         -", time = "unknown";
  if (progress.iterations_per_second > 0 && left) {
    speed = fmt::format("{:10.5g}", progress.iterations_per_second);
    time = duration(to_go / progress.iterations_per_second);
  }
  std::string end = fmt::format("{} iters/sec. Estimated time to finish: {}.", speed, time);
  if (end.size() > width) end = fmt::format("{} iters/sec. To finish: {}.", speed, time);
  const std::string lines[] = {
      bar("total", total, width),
      bar("this epoch", progress.epoch_detail - std::floor(progress.epoch_detail), width),
      fmt::format("{:10} iter, {} epoch / {}", progress.iteration,
                  std::floor(progress.epoch_detail), goal),
      end};
  std::string text;
  for (const std::string& line : lines) text += line.substr(0, width) + '\n';
  return text;
}

void ProgressBar::initialize(Trainer& trainer) {
  is_shown_ = trainer.is_root() && moves_cursor(out_);
}

void ProgressBar::run(Trainer& trainer) {
  if (!is_shown_) return;
  const double now = trainer.elapsed_time();
  if (!recent_.empty() && now - recent_.back().seconds < update_interval_) return;
  const Updater& updater = trainer.updater();
  recent_.push_back({updater.iteration(), now});
  if (recent_.size() > speed_window) recent_.pop_front();
  const Moment& first = recent_.front();
  Progress progress{updater.iteration(), updater.epoch_detail(), trainer.length(),
                    updater.steps_per_epoch(), 0};
  if (now > first.seconds)
    progress.iterations_per_second =
        static_cast<double>(updater.iteration() - first.iteration) / (now - first.seconds);
  fmt::print(out_, "{}{}{}", erase_below, draw(progress, line_width(out_)), up_four_lines);
  std::fflush(out_);
  is_drawn_ = true;
  if (out_ == stdout) set_bar_shown(true);
}

void ProgressBar::erase() {
  if (!is_drawn_) return;
  std::fputs(erase_below, out_);
  std::fflush(out_);
  is_drawn_ = false;
  if (out_ == stdout) set_bar_shown(false);
}

}  // namespace tasuki

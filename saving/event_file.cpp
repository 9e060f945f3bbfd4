#include "saving/event_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/growing_file.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/utf8.hpp"
#include "dataset/images/png_file.hpp"
#include "saving/tensorboard/crc32c.hpp"
#include "saving/tensorboard/proto_message.hpp"

namespace tasuki {
namespace fs = std::filesystem;
namespace {

// Numbers of fields in TensorFlow's event.proto and summary.proto, and in TensorBoard's
// plugin_data.proto of the plugin hparams.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary {
constexpr int value = 1;
}
namespace value {
constexpr int tag = 1, simple_value = 2, image = 4, histogram = 5, tensor = 8, metadata = 9;
}

// "events.out.tfevents.1764295200.node1.4711.0.tasuki": the second of its making comes first, as in
// names by TensorFlow; the last word tells Tasuki's own files.
constexpr std::string_view name_begin = "events.out.tfevents.", name_end = ".tasuki";
constexpr std::size_t digits_of_second = 10;

bool is_own_name(std::string_view name) {
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return false;
  const std::string_view second = name.substr(name_begin.size(), digits_of_second);
  return second.size() == digits_of_second &&
         std::ranges::all_of(second, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t second_of(const fs::path& file) {
  const std::string name = file.filename().string();
  std::int64_t second = 0;
  const char* const begin = name.data() + name_begin.size();
  std::from_chars(begin, begin + digits_of_second, second);
  return second;
}

fs::path new_name_in(const fs::path& folder) {
  static std::atomic<int> made = 0;
  const std::vector<fs::path> others = event_files_in(folder);
  std::int64_t second = static_cast<std::int64_t>(EventFile::now());
  if (!others.empty()) second = std::max(second, second_of(others.back()) + 1);
  return folder / fmt::format("{}{:010}.{}.{}.{}{}", name_begin, second, host_name(), ::getpid(),
                              made++, name_end);
}

std::string record_of(const ProtoMessage& message) {
  const auto put = [](std::string& text, auto number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  std::string record;
  put(record, std::uint64_t{message.bytes().size()});
  put(record, masked_crc32c(record));
  record += message.bytes();
  put(record, masked_crc32c(message.bytes()));
  return record;
}

std::unique_ptr<GrowingFile> make_file(const fs::path& folder) {
  if (folder.has_parent_path()) make_output_folder(folder.parent_path());
  make_own_folder(folder);
  auto file = std::make_unique<GrowingFile>(new_name_in(folder), OwnFile::make);
  ProtoMessage first;
  first.add_double(event::wall_time, EventFile::now())
      .add_text(event::file_version, "brain.Event:2");
  file->append(record_of(first));
  return file;
}

ProtoMessage metadata_of(std::string_view plugin, std::string_view content = {}) {
  ProtoMessage data, metadata;
  data.add_text(1, plugin);
  if (!content.empty()) data.add_text(2, content);
  metadata.add(1, data);
  return metadata;
}

ProtoMessage summary_of(const ProtoMessage& only) {
  ProtoMessage made;
  made.add(summary::value, only);
  return made;
}

// Texts in protocol buffers are UTF-8, or readers refuse the whole record.
ProtoMessage tagged(std::string_view tag) {
  ProtoMessage made;
  made.add_text(value::tag, to_utf8(tag));
  return made;
}

ProtoMessage encode(const EventFile::Setting& setting) {
  ProtoMessage made;
  if (const auto* const number = std::get_if<double>(&setting))
    made.add_double(2, *number);
  else if (const auto* const text = std::get_if<std::string>(&setting))
    made.add_text(3, to_utf8(*text));
  else
    made.add_integer(4, std::get<bool>(setting) ? 1 : 0);
  return made;
}

}  // namespace

// The first start of a session that TensorBoard reads is the run's own; later ones are restarts,
// for which it drops what comes after them. So each file needs one.
EventFile::EventFile(const fs::path& folder, std::int64_t first_step) : file_(make_file(folder)) {
  constexpr int session_status = 1, start = 1;
  add_event(now(), first_step, event::session_log,
            ProtoMessage().add_integer(session_status, start));
  flush();
}

EventFile::~EventFile() = default;
EventFile::EventFile(EventFile&&) noexcept = default;
EventFile& EventFile::operator=(EventFile&&) noexcept = default;

double EventFile::now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void EventFile::add_event(double wall_time, std::int64_t step, int field,
                          const ProtoMessage& contents) {
  ProtoMessage event;
  event.add_double(event::wall_time, wall_time);
  if (step != 0) event.add_integer(event::step, step);  // 0 is what readers assume
  event.add(field, contents);
  file_->append(record_of(event));
}

void EventFile::add_scalar(std::string_view tag, double value, std::int64_t step) {
  const Scalar one(tag, value);
  add_scalars({&one, 1}, step);
}

void EventFile::add_scalars(std::span<const Scalar> scalars, std::int64_t step, double wall_time) {
  if (scalars.empty()) return;
  ProtoMessage all;
  for (const auto& [tag, number] : scalars)
    all.add(summary::value, tagged(tag).add_float(value::simple_value, static_cast<float>(number)));
  add_event(wall_time, step, event::summary, all);
}

void EventFile::add_histogram(std::string_view tag, const Tensor& values, std::int64_t step) {
  constexpr int intervals = 64;
  const Tensor host = values.plain().to(Device::cpu());
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  double count = 0, sum = 0, squares = 0;
  for (const double x : host.span<float>()) {
    if (!std::isfinite(x)) continue;
    least = std::min(least, x);
    greatest = std::max(greatest, x);
    ++count;
    sum += x;
    squares += x * x;
  }
  if (count == 0) return;
  std::vector<double> ends, counts;
  if (least == greatest) {  // as TensorBoard's own writer shows a single value
    least -= 0.5;
    greatest += 0.5;
    ends = {greatest};
    counts = {count};
  } else {
    counts.resize(intervals);
    const double width = (greatest - least) / intervals;
    for (const double x : host.span<float>())
      if (std::isfinite(x))
        ++counts[static_cast<std::size_t>(std::min<double>((x - least) / width, intervals - 1))];
    for (int i = 1; i < intervals; ++i) ends.push_back(least + i * width);
    ends.push_back(greatest);
  }
  ProtoMessage histogram;
  histogram.add_double(1, least).add_double(2, greatest).add_double(3, count).add_double(4, sum);
  histogram.add_double(5, squares).add_doubles(6, ends).add_doubles(7, counts);
  add_event(now(), step, event::summary, summary_of(tagged(tag).add(value::histogram, histogram)));
}

void EventFile::add_images(std::string_view tag, const Tensor& images, std::int64_t columns,
                           std::int64_t step) {
  const Image grid = tile_images(images, columns);
  constexpr int rgb = 3;
  ProtoMessage image;
  image.add_integer(1, grid.height).add_integer(2, grid.width).add_integer(3, rgb);
  image.add_text(4, encode_png(grid));
  add_event(now(), step, event::summary, summary_of(tagged(tag).add(value::image, image)));
}

void EventFile::add_text(std::string_view tag, std::string_view text, std::int64_t step) {
  constexpr int string_type = 7;
  ProtoMessage one, shape, tensor;
  shape.add(2, one.add_integer(1, 1));
  tensor.add_integer(1, string_type).add(2, shape).add_text(8, to_utf8(text));
  add_event(
      now(), step, event::summary,
      summary_of(tagged(tag).add(value::tensor, tensor).add(value::metadata, metadata_of("text"))));
}

void EventFile::add_settings(const std::map<std::string, Setting>& settings) {
  ProtoMessage start, content;
  for (const auto& [name, setting] : settings)
    start.add(1, ProtoMessage().add_text(1, to_utf8(name)).add(2, encode(setting)));
  start.add_double(5, now());
  content.add(3, start);
  add_event(now(), 0, event::summary,
            summary_of(tagged("_hparams_/session_start_info")
                           .add(value::metadata, metadata_of("hparams", content.bytes()))));
}

void EventFile::flush() {
  file_->flush();
}

std::int64_t EventFile::waiting() const {
  return std::ssize(file_->waiting());
}

bool EventFile::is_there() const {
  return file_->is_there();
}

void EventFile::move_to(const fs::path& folder) {
  auto made = make_file(folder);
  made->append(file_->waiting());
  file_ = std::move(made);
}

EventPosition EventFile::position() const {
  return {file_->path().filename().string(), file_->size()};
}

std::vector<fs::path> event_files_in(const fs::path& folder) {
  std::vector<fs::path> found;
  // What is behind a link may be of other runs, too.
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(folder, ignored))) return found;
  for (const std::string& name : names_in(folder))
    if (is_own_name(name)) found.push_back(folder / name);
  std::ranges::sort(found);
  return found;
}

void cut_event_files(const fs::path& folder, const EventPosition& position) {
  const std::vector<fs::path> files = event_files_in(folder);
  // Without the file of the position, the others may be another run's.
  if (!position.file.empty() && std::ranges::find(files, folder / position.file) == files.end())
    return;
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    if (name == position.file) {
      GrowingFile(file, OwnFile::update).cut(position.bytes);
    } else if (name > position.file) {
      std::error_code error;
      fs::remove(file, error);
      if (error) fail_because(error, ErrorKind::cannot_write, "cannot remove {}", file.string());
    }
  }
}

}  // namespace tasuki

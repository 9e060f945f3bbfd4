// EventFile: what TensorBoard shows of a run (docs/tensorboard.md).
//
//   EventFile events("result/tensorboard");
//   events.add_scalar("loss", 0.25, step);
//   events.flush();
//
// The file has TensorFlow's record format: for each record its length, a checksum of that, an Event
// (a protocol buffer), and a checksum of that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki {

class GrowingFile;
class ProtoMessage;

// The place in a folder of event files behind which a resumed run goes on: a file's name, and bytes
// of it. An empty name: before all files.
struct EventPosition {
  std::string file;
  std::int64_t bytes = 0;
};

class EventFile {
 public:
  // Makes the folder if it is missing, and a new file in it, whose name sorts after all others that
  // were made so: TensorBoard reads them in this order and shows them as one run. With a
  // `first_step` above 0 it drops what other files have of that step and later ones, so it is
  // the first step after a resume. Errors of kind cannot_write name the path.
  explicit EventFile(const std::filesystem::path& folder, std::int64_t first_step = 0);
  ~EventFile();
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;

  // Everything below is kept in memory until flush(). `wall_time`: seconds since 1970.
  using Scalar = std::pair<std::string, double>;
  void add_scalar(std::string_view tag, double value, std::int64_t step);
  void add_scalars(std::span<const Scalar> scalars, std::int64_t step, double wall_time = now());
  // How often values occur: finite float32 values on any device, in 64 intervals of equal width
  // between the least and the greatest. Others are left out; without any, nothing is added.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step);
  // A grid of images, row by row: N x 1 x H x W or N x 3 x H x W on the CPU, from 0 to 1.
  void add_images(std::string_view tag, const Tensor& images, std::int64_t columns,
                  std::int64_t step);
  // Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step);
  // The settings of the run, for the tab HPARAMS. Numbers and switches can be sorted there.
  using Setting = std::variant<double, bool, std::string>;
  void add_settings(const std::map<std::string, Setting>& settings);

  // Writes what waits in memory. If it cannot be written, an error of kind cannot_write says why,
  // no part of it is in the file, and the next call tries again.
  void flush();
  // Bytes that wait.
  std::int64_t waiting() const;
  // Whether the file is where it was made.
  bool is_there() const;
  // Goes on in a new file in that folder, with what waits in memory.
  void move_to(const std::filesystem::path& folder);
  EventPosition position() const;

  static double now();

 private:
  void add_event(double wall_time, std::int64_t step, int field, const ProtoMessage& contents);

  std::unique_ptr<GrowingFile> file_;
};

// The event files in a folder that an EventFile has made, by their names, in order; none if it does
// not exist.
std::vector<std::filesystem::path> event_files_in(const std::filesystem::path& folder);

// Removes what these files have behind a position. Files of other programs stay; so do all if the
// position's own is not there, because another run may have made them.
void cut_event_files(const std::filesystem::path& folder, const EventPosition& position);

}  // namespace tasuki

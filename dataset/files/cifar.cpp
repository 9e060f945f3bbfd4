#include "dataset/files/cifar.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "dataset/files/input_file.hpp"

namespace tasuki {
namespace fs = std::filesystem;

namespace {

const Shape picture{3, 32, 32};

class CifarSource final : public DataSource {
 public:
  CifarSource(std::vector<fs::path> files, std::int64_t records_per_file, std::size_t label_bytes,
              const DatasetHeader& header)
      : DataSource(header),
        files_(std::move(files)),
        records_per_file_(records_per_file),
        labels_(label_bytes) {}

 private:
  void read_next(std::span<FieldWriter> example) override {
    const std::int64_t record = next_++ % records_per_file_;
    if (record == 0) open_file(static_cast<std::size_t>((next_ - 1) / records_per_file_));
    file_->read(labels_.data(), labels_.size());
    const auto label = std::to_integer<std::int32_t>(labels_.back());
    check_label(label, header().fields[1].classes, record, file_->path(), next_ - 1);
    example[1].as<std::int32_t>()[0] = label;
    file_->read(example[0].bytes().data(), example[0].bytes().size());
  }

  void open_file(std::size_t index) {
    file_.emplace(files_[index]);
    file_->expect_size(records_per_file_ * (std::ssize(labels_) + picture.count()),
                       fmt::format("{} pictures", records_per_file_));
  }

  std::vector<fs::path> files_;
  std::int64_t records_per_file_;
  std::vector<std::byte> labels_;  // of one record
  std::optional<InputFile> file_;
  std::int64_t next_ = 0;
};

std::int64_t records_in(const fs::path& file, std::int64_t record_bytes) {
  const InputFile readable(file);  // throws the error of a missing file
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  if (bytes == 0 || bytes % record_bytes != 0)
    fail(ErrorKind::data,
         "{}: expected pictures of {} bytes each, found {} bytes, which is not a whole number of "
         "them; get the file again",
         file.string(), record_bytes, bytes);
  return bytes / record_bytes;
}

}  // namespace

std::unique_ptr<DataSource> open_cifar(std::vector<fs::path> files, std::int64_t classes,
                                       std::size_t label_bytes) {
  TASUKI_CHECK(!files.empty() && label_bytes > 0, "expected at least one file and one label");
  const auto record_bytes = static_cast<std::int64_t>(label_bytes) + picture.count();
  const std::int64_t records = records_in(files[0], record_bytes);
  for (const fs::path& file : files)
    if (const std::int64_t found = records_in(file, record_bytes); found != records)
      fail(ErrorKind::data,
           "{}: expected {} pictures, as many as in {}, found {}; get the files again",
           file.string(), records, files[0].string(), found);
  const auto total = records * static_cast<std::int64_t>(files.size());
  return std::make_unique<CifarSource>(std::move(files), records, label_bytes,
                                       classification_header(total, picture, classes));
}

}  // namespace tasuki

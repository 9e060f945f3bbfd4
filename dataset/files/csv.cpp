#include "dataset/files/csv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "dataset/files/text_file.hpp"

namespace tasuki {
namespace {

constexpr std::size_t most_shown = 200;  // of a header line in messages

// The columns of a field in a line.
using Columns = std::vector<std::size_t>;

class CsvSource final : public DataSource {
 public:
  CsvSource(TextFile file, std::vector<std::string> names, Columns x, Columns t, char separator,
            DatasetHeader header)
      : DataSource(std::move(header)),
        file_(std::move(file)),
        names_(std::move(names)),
        x_(std::move(x)),
        t_(std::move(t)),
        separator_(separator) {}

 private:
  void read_next(std::span<FieldWriter> example) override {
    std::string_view line;
    if (!file_.next(line))
      fail(ErrorKind::data, "{}: expected another line, found the end; was the file changed?",
           file_.place());
    cells_ = split_cells(line, separator_, [this] { return file_.place(); });
    if (cells_.size() != names_.size())
      fail(ErrorKind::data, "{}: expected {} values, as many as in the header line, found {}",
           file_.place(), names_.size(), cells_.size());
    write_numbers(x_, example[0]);
    if (t_.empty()) return;
    const std::int64_t classes = example[1].field().classes;
    if (classes == 0) {
      write_numbers(t_, example[1]);
    } else {
      const std::size_t column = t_[0];
      example[1].as<std::int32_t>()[0] = static_cast<std::int32_t>(
          parse_integer(cells_[column], 0, classes - 1, place_of(column)));
    }
  }
  void check_end() override {
    if (std::string_view line; file_.next(line))
      fail(ErrorKind::data, "{}: expected the end of the file, found another line; was it changed?",
           file_.place());
  }

  void write_numbers(const Columns& columns, FieldWriter& into) const {
    auto to = into.as<float>().begin();
    for (const std::size_t column : columns) *to++ = parse_number(cells_[column], place_of(column));
  }
  Place place_of(std::size_t column) const {
    return [this, column] {
      return fmt::format("{}, column '{}'", file_.place(), quoted_input(names_[column]));
    };
  }

  TextFile file_;
  std::vector<std::string> names_, cells_;
  Columns x_, t_;
  char separator_;
};

Columns columns_of(const std::vector<std::string>& wanted, const std::vector<std::string>& names,
                   const std::filesystem::path& path) {
  Columns columns;
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      fail(ErrorKind::data, "{}: expected a column '{}', found {}", path.string(), name,
           printable(join(names, ", "), most_shown));
    if (std::find(found + 1, names.end(), name) != names.end())
      fail(ErrorKind::data, "{}: two columns are named '{}'", path.string(), name);
    columns.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return columns;
}

void check_options(const CsvOptions& options) {
  if (options.classes > 0 && options.t.size() != 1)
    fail(ErrorKind::usage, "expected one column of labels, found {}", options.t.size());
  std::vector<std::string> names = options.x;
  names.insert(names.end(), options.t.begin(), options.t.end());
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    fail(ErrorKind::usage, "column '{}' is asked for twice", *twice);
}

}  // namespace

std::unique_ptr<DataSource> open_csv(const std::filesystem::path& path, const CsvOptions& options) {
  check_options(options);
  TextFile file(path);
  std::string_view line;
  if (!file.next(line))
    fail(ErrorKind::data, "{}: expected a header line with the names of the columns, found nothing",
         path.string());
  std::vector<std::string> names =
      split_cells(line, options.separator, [&file] { return file.place(); });
  Columns t = columns_of(options.t, names, path), x = columns_of(options.x, names, path);
  if (x.empty())
    for (std::size_t column = 0; column < names.size(); ++column)
      if (std::ranges::find(t, column) == t.end()) x.push_back(column);

  DatasetHeader header{TextFile::count_lines(path) - 1, {{.name = "x", .shape = {std::ssize(x)}}}};
  if (options.classes > 0)
    header.fields.push_back({.name = "t",
                             .stored = DType::int32,
                             .decoded = DType::int32,
                             .is_target = true,
                             .classes = options.classes});
  else if (!t.empty())
    header.fields.push_back({.name = "t", .shape = {std::ssize(t)}, .is_target = true});
  return std::make_unique<CsvSource>(std::move(file), std::move(names), std::move(x), std::move(t),
                                     options.separator, std::move(header));
}

std::shared_ptr<InMemoryDataset> csv_dataset(const std::filesystem::path& path,
                                             const CsvOptions& options) {
  return read_dataset(*open_csv(path, options));
}

}  // namespace tasuki

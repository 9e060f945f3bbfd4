// The file OUT/hashes of --hash-every: hashes of what an iteration has computed, as JSON lines.
//
//   {"hashes of":"the bytes of each array","by":"XXH3, 64 bits, seed 0","version":1}
//   {"iteration":20,"loss":0.5,
//    "hashes":{"loss":"9d...","gradients":"51...","weights":"c0...", ...},
//    "gradients":{"predictor/l1/W":"0a...", ...},"weights":{"predictor/l1/W":"7f...", ...}, ...}
//
// An iteration is one line. "loss" is the mean over the examples of all ranks, with as many digits
// as it takes to read the same number (null if it is not finite, or nothing was observed). A hash
// has 16 hexadecimal digits. That of the loss is of its 8 bytes; that of a group of arrays is of
// their hashes, 8 bytes each, in the order in which they stand there. In Python:
// xxhash.xxh3_64_hexdigest(array.tobytes()).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tasuki {

class GrowingFile;
class LineReader;

inline constexpr const char* hashes_name = "hashes";

// A line but the first.
struct StepHashes {
  // "gradients", "weights", ...
  struct Group {
    std::string name;
    std::vector<std::pair<std::string, std::uint64_t>> arrays;  // by path, in the model's order
    std::uint64_t hash() const;                                 // of all of them
  };

  std::int64_t iteration = 0;
  std::optional<double> loss = std::nullopt;  // nothing: not observed, or not finite
  std::optional<std::uint64_t> loss_hash = std::nullopt;
  // In the order in which a step computes them.
  std::vector<Group> groups = {};
  // Whether this line is there because the run ended. A run that goes on drops it.
  bool is_of_end = false;

  std::string line() const;
  // The inverse of line(). Any other text is an error of kind data that begins with `place`.
  static StepHashes parse(std::string_view line, const std::string& place);
};

// A line that a run has written, to recognise its file.
struct HashMark {
  std::int64_t iteration = 0;  // 0: none
  std::uint64_t hash = 0;      // of the line

  friend bool operator==(const HashMark&, const HashMark&) = default;
};

// What a file has of the iterations up to one: the first `bytes` of it.
struct KeptHashes {
  std::int64_t bytes = 0;
  HashMark last;
};
// For a run that goes on after this iteration; `is_over`: that makes no further step. A text that
// HashFile would not have written is an error of kind data that names `place` and what to do; only
// the last line may be there in part, and is not kept then. So is a text that lacks the line
// `mark`: another run has written it, or it was cut.
KeptHashes hashes_up_to(std::int64_t iteration, bool is_over, LineReader& lines,
                        const std::string& place, const HashMark& mark = {});

// Reads the lines of a file one after the other. Errors are of kind data, missing or io.
class HashReader {
 public:
  explicit HashReader(const std::filesystem::path& file);
  ~HashReader();
  // Nothing at the end. A last line without a line end is left out, because a run may be writing
  // it. Iterations must grow.
  std::optional<StepHashes> next();

 private:
  std::string place_;
  std::unique_ptr<LineReader> lines_;
  std::int64_t number_ = 0, before_ = 0;
};

// Whether there is a file that begins like one of HashFile. False if it cannot be read.
bool is_hash_file(const std::filesystem::path& file);

class HashFile {
 public:
  // Goes on in a file that a HashFile has written, as hashes_up_to() says; makes it if it is
  // missing or empty.
  HashFile(std::filesystem::path file, std::int64_t iteration, bool is_over,
           const HashMark& mark = {});
  ~HashFile();
  HashFile(HashFile&&) noexcept;
  HashFile& operator=(HashFile&&) noexcept;

  // Kept in memory until flush().
  void add(const StepHashes& step);
  std::int64_t waiting() const;  // bytes
  // If the file cannot be written, an error of kind cannot_write says why, and the next call tries
  // again. `file` is where it is to be: a new one is begun if it is not there.
  void flush(const std::filesystem::path& file);
  // Waits until what was flushed is on disk.
  void sync() const;
  // The last line in the file, and the last one that was added.
  const HashMark& written() const { return written_; }
  const HashMark& added() const { return added_; }

 private:
  std::unique_ptr<GrowingFile> file_;
  HashMark added_, written_;
};

}  // namespace tasuki

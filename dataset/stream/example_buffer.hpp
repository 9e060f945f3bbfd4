// ExampleBuffer: the newest examples of an endless stream, as a data set, and the choice of batches
// from them. A function of what was added and taken, in which order; it knows nothing of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/range.hpp"
#include "dataset/dataset.hpp"

namespace tasuki {

// Names, shapes and types of a stream's fields, for messages.
std::string text_of(std::span<const Field> fields);

// What became of the examples of a stream.
struct StreamCounts {
  std::int64_t arrived = 0;
  std::int64_t used = 0;      // places in batches, repetitions included
  std::int64_t repeated = 0;  // places whose example had been in a batch before
  std::int64_t dropped = 0;   // examples that newer ones replaced before they were in any batch
  // Examples that never arrived, because the rank that made them found no room on the way.
  std::int64_t dropped_by_senders = 0;
};

// Holds the last `capacity` examples. The example that arrived as number k (from 0) is at place
// k % capacity, where it replaces an older one. A batch's ids are arrival numbers.
class ExampleBuffer final : public Dataset {
 public:
  // A usage error unless all fields have fixed sizes and the capacity is positive.
  ExampleBuffer(std::vector<Field> fields, std::int64_t capacity);

  // Adds examples as they travel: `columns` has for each field in order its values of all `count`
  // examples, of which those in `part` are added.
  void add(std::span<const std::byte> columns, std::int64_t count, Range part);
  void add(std::span<const std::byte> columns, std::int64_t count) {
    add(columns, count, {0, count});
  }

  std::int64_t capacity() const { return capacity_; }
  std::int64_t held() const { return header_.count; }
  // Examples that were in no batch yet, counted from the oldest one that take_oldest() has not
  // taken.
  std::int64_t waiting() const { return counts_.arrived - next_; }
  // The places of the next batch, which count as used: at most `count` examples that were not taken
  // before, in order of arrival;
  std::vector<std::int64_t> take_oldest(std::int64_t count);
  // or `count` different examples (all, if fewer are held), each held one with equal probability.
  // The choice is a function of the seed, the stream and what is held.
  std::vector<std::int64_t> take_any(std::int64_t count, std::uint64_t seed, std::uint64_t stream);

  const StreamCounts& counts() const { return counts_; }

  const DatasetHeader& header() const override { return header_; }
  std::size_t stored_bytes() const override;
  std::int64_t id(std::int64_t place) const override;
  void read(std::int64_t place, std::size_t field, FieldWriter& into) const override;
  FieldArray array(std::size_t field) const override { return {.values = columns_[field].get()}; }

 private:
  void use(std::int64_t place);

  DatasetHeader header_;
  std::int64_t capacity_;
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): not initialised, so that unused room costs nothing
  std::vector<std::unique_ptr<std::byte[]>> columns_;
  std::vector<bool> is_used_;  // by place
  std::int64_t next_ = 0;      // the first arrival number that take_oldest() considers
  StreamCounts counts_;
};

// Appends examples of a data set to `columns` in that form.
void append_columns(const Dataset& examples, std::int64_t begin, std::int64_t end,
                    std::vector<std::byte>& columns);

// A usage error that names `who` unless the data set has these fields: names, shapes, types.
void check_stream_fields(const Dataset& examples, std::span<const Field> fields, const char* who);

}  // namespace tasuki

#include "array_files/hdf5/row_readers.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"

namespace tasuki::hdf5 {
namespace {

constexpr std::size_t cache_bytes = std::size_t{64} << 20;  // of an array

using Slab = std::shared_ptr<const std::byte[]>;

// The slabs that were used last, by their numbers. For several threads.
class SlabCache {
 public:
  explicit SlabCache(std::size_t slab_bytes)
      : most_(std::max<std::size_t>(1, cache_bytes / std::max<std::size_t>(1, slab_bytes))) {}

  Slab find(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(number);
    if (found == places_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->slab;
  }
  void add(std::int64_t number, Slab slab) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(number)) return;  // another thread was faster
    recent_.push_front({number, std::move(slab)});
    places_.emplace(number, recent_.begin());
    if (recent_.size() <= most_) return;
    places_.erase(recent_.back().number);
    recent_.pop_back();
  }

 private:
  struct Entry {
    std::int64_t number;
    Slab slab;
  };
  std::mutex mutex_;
  std::size_t most_;
  std::list<Entry> recent_;
  std::unordered_map<std::int64_t, std::list<Entry>::iterator> places_;
};

class SlabReader final : public RowReader {
 public:
  explicit SlabReader(OpenArray array)
      : array_(std::move(array)),
        cache_(static_cast<std::size_t>(array_.slab_rows) * array_.row_bytes) {}

  // In the order of the file, so that a slab is looked up once. Rows are copied, because a batch
  // would keep many slabs in memory.
  LocatedExamples locate(std::span<const std::int64_t> rows) const override {
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t at) { return std::pair(rows[at], at); });
    const std::size_t bytes = array_.row_bytes;
    const auto copies = std::make_shared_for_overwrite<std::byte[]>(rows.size() * bytes);
    LocatedExamples located{std::vector<const std::byte*>(rows.size()), {copies}};
    Slab slab;
    std::int64_t number = -1;
    for (const std::size_t at : order) {
      if (const std::int64_t wanted = rows[at] / array_.slab_rows; wanted != number) {
        slab = slab_of(wanted);
        number = wanted;
      }
      std::byte* const copy = copies.get() + at * bytes;
      const auto row = static_cast<std::size_t>(rows[at] % array_.slab_rows);
      std::memcpy(copy, slab.get() + row * bytes, bytes);
      located.places[at] = copy;
    }
    return located;
  }
  const OpenArray& array() const { return array_; }

 private:
  Slab slab_of(std::int64_t number) const {
    if (Slab kept = cache_.find(number)) return kept;
    Slab slab = read_slab(number);
    cache_.add(number, slab);
    report_progress();
    return slab;
  }

  Slab read_slab(std::int64_t number) const {
    const char* const what = "cannot read its values";
    std::vector<hsize_t> begin(array_.sizes.size(), 0), count = array_.sizes;
    begin[0] = static_cast<hsize_t>(number) * static_cast<hsize_t>(array_.slab_rows);
    count[0] = std::min(static_cast<hsize_t>(array_.slab_rows), array_.sizes[0] - begin[0]);
    const auto slab = std::make_shared_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(count[0]) * array_.row_bytes);
    const Turn turn;
    const Handle in_file = opened(H5Dget_space(array_.dataset.get()), array_.place, what);
    checked(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(),
                                nullptr),
            array_.place, what);
    const Handle in_memory =
        opened(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
               array_.place, what);
    checked(H5Dread(array_.dataset.get(), array_.type.get(), in_memory.get(), in_file.get(),
                    H5P_DEFAULT, slab.get()),
            array_.place, what);
    return slab;
  }

  OpenArray array_;
  mutable SlabCache cache_;
};

class ChunkReader final : public RowReader {
 public:
  ChunkReader(OpenArray array, std::shared_ptr<const MappedFile> file)
      : slabs_(std::move(array)),
        file_(std::move(file)),
        places_(static_cast<std::size_t>(chunks_of(slabs_.array()))) {}

  LocatedExamples locate(std::span<const std::int64_t> rows) const override {
    const OpenArray& array = slabs_.array();
    LocatedExamples located{{}, {file_}};
    located.places.reserve(rows.size());
    const std::byte* chunk = absent;
    std::int64_t first = -array.chunk_rows;  // row of `chunk`
    for (const std::int64_t& row : rows) {
      if (row < first || row >= first + array.chunk_rows) {
        const std::int64_t number = row / array.chunk_rows;
        first = number * array.chunk_rows;
        chunk = place_of(number);
      }
      if (chunk != absent) {
        located.places.push_back(chunk + static_cast<std::size_t>(row - first) * array.row_bytes);
        continue;
      }
      const LocatedExamples read = slabs_.locate({&row, 1});
      located.places.push_back(read.places[0]);
      located.owners.push_back(read.owners[0]);
    }
    return located;
  }

 private:
  static constexpr std::byte is_absent{};
  static constexpr const std::byte* absent = &is_absent;

  // Threads that look for the same chunk find the same place.
  const std::byte* place_of(std::int64_t chunk) const {
    std::atomic<const std::byte*>& place = places_[static_cast<std::size_t>(chunk)];
    const std::byte* known = place.load(std::memory_order_relaxed);
    if (known == nullptr) place.store(known = find(chunk), std::memory_order_relaxed);
    return known;
  }

  const std::byte* find(std::int64_t chunk) const {
    const OpenArray& array = slabs_.array();
    std::vector<hsize_t> begin(array.sizes.size(), 0);
    begin[0] = static_cast<hsize_t>(chunk) * static_cast<hsize_t>(array.chunk_rows);
    unsigned skipped_filters = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    const Turn turn;
    checked(H5Dget_chunk_info_by_coord(array.dataset.get(), begin.data(), &skipped_filters,
                                       &address, &bytes),
            array.place, "cannot find a chunk");
    if (address == HADDR_UNDEF) return absent;
    const std::size_t needed = static_cast<std::size_t>(array.chunk_rows) * array.row_bytes;
    const std::size_t all = file_->bytes().size();
    if (bytes != needed || address > all || needed > all - address)
      fail(ErrorKind::data, "{}: expected a chunk of {} bytes inside the file, found {} at {}",
           array.place, needed, bytes, address);
    return file_->bytes().data() + address;
  }

  SlabReader slabs_;
  std::shared_ptr<const MappedFile> file_;
  mutable std::vector<std::atomic<const std::byte*>> places_;  // of chunks; null: not known yet
};

}  // namespace

OpenArray::~OpenArray() {
  if (dataset.get() < 0 && type.get() < 0) return;  // moved from
  const Turn turn;
  dataset.close();
  type.close();
}

std::int64_t chunks_of(const OpenArray& array) {
  return (static_cast<std::int64_t>(array.sizes[0]) + array.chunk_rows - 1) / array.chunk_rows;
}

std::shared_ptr<const RowReader> slab_reader(OpenArray array) {
  return std::make_shared<SlabReader>(std::move(array));
}

std::shared_ptr<const RowReader> chunk_reader(OpenArray array,
                                              std::shared_ptr<const MappedFile> file) {
  return std::make_shared<ChunkReader>(std::move(array), std::move(file));
}

}  // namespace tasuki::hdf5

// The symbol that libtasuki.so looks for in this library (array_files/hdf5_dataset.cpp): opens data
// sets, and chooses how their rows are read.
#include "array_files/hdf5_entry.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "array_files/hdf5/library.hpp"
#include "array_files/hdf5/row_readers.hpp"
#include "array_files/hdf5/types.hpp"
#include "array_files/mapped_file.hpp"
#include "core/error.hpp"

namespace tasuki::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t slab_bytes = std::size_t{256} << 10;         // without chunks
constexpr std::size_t largest_slab_bytes = std::size_t{16} << 20;  // of a chunk's rows

Handle open_hdf5_file(const std::string& path) {
  const Handle access = opened(H5Pcreate(H5P_FILE_ACCESS), path, "cannot open it as HDF5");
#if H5_VERSION_GE(1, 10, 7)
  // Files that others write are refused; file systems without locks are not.
  H5Pset_file_locking(access.get(), /*use_file_locking=*/true, /*ignore_when_disabled=*/true);
#endif
  return opened(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), path,
                "cannot open it as HDF5");
}

// Filters are HDF5's own, or plug-ins that it finds.
void check_filters(const Handle& creation, const std::string& place) {
  const int filters = checked(H5Pget_nfilters(creation.get()), place, "cannot read its filters");
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, settings = 0;
    std::size_t values = 0;
    char name[64] = "";
    const H5Z_filter_t filter =
        checked(H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &values, nullptr,
                               sizeof name, name, &settings),
                place, "cannot read its filters");
    if (H5Zfilter_avail(filter) <= 0)
      fail(ErrorKind::data,
           "{}: it is compressed by filter {} ({}), which this HDF5 lacks; name the folder of its "
           "plug-in in HDF5_PLUGIN_PATH, or compress it with gzip (h5repack -f GZIP=4)",
           place, filter, *name != '\0' ? name : "without a name");
  }
}

// What lies where in the file.
struct Storage {
  H5D_layout_t layout = H5D_CONTIGUOUS;
  bool is_filtered = false;  // compressed, for example
  bool is_in_file = false;   // unfiltered, and not in other files
  std::vector<hsize_t> chunk = {};

  Storage(const Handle& file, const OpenArray& array) {
    const char* const what = "cannot read its layout";
    const Handle creation = opened(H5Dget_create_plist(array.dataset.get()), array.place, what);
    layout = checked(H5Pget_layout(creation.get()), array.place, what);
    check_filters(creation, array.place);
    is_filtered = H5Pget_nfilters(creation.get()) != 0;
    if (layout == H5D_CHUNKED) {
      chunk.resize(array.sizes.size());
      checked(H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()),
              array.place, what);
    }
    // An external link leads to a data set of another file, and what follows a user's block is not
    // where all versions of HDF5 say that it is.
    const Handle own = opened(H5Iget_file_id(array.dataset.get()), array.place, what);
    const Handle of_file = opened(H5Fget_create_plist(own.get()), array.place, what);
    hsize_t block = 0;
    checked(H5Pget_userblock(of_file.get(), &block), array.place, what);
    is_in_file = name_of(own) == name_of(file) && block == 0 && !is_filtered &&
                 H5Pget_external_count(creation.get()) == 0;
  }

  static std::string name_of(const Handle& file) {
    std::string name(4096, '\0');
    const ssize_t length = H5Fget_name(file.get(), name.data(), name.size());
    name.resize(static_cast<std::size_t>(std::clamp<ssize_t>(length, 0, std::ssize(name))));
    return name;
  }
};

bool has_whole_rows(const Storage& storage, const OpenArray& array) {
  return std::equal(storage.chunk.begin() + 1, storage.chunk.end(), array.sizes.begin() + 1);
}

// HDF5's chunks have less than 4 GiB, but a damaged file may say anything.
std::size_t chunk_bytes(const Storage& storage, const ElementType& type) {
  constexpr std::size_t most = std::size_t{4} << 30;
  auto bytes = static_cast<std::size_t>(type.bytes);
  for (const hsize_t each : storage.chunk)
    bytes = each > most / bytes ? most : bytes * std::max<std::size_t>(each, 1);
  return bytes;
}

// HDF5 makes room for a whole chunk to read any part of it.
void check_chunk(std::size_t bytes, const OpenArray& array) {
  constexpr std::size_t usual = std::size_t{256} << 20;
  const std::size_t all = array.row_bytes * static_cast<std::size_t>(array.sizes[0]);
  if (bytes > std::max(usual, all))
    fail(ErrorKind::data,
         "{}: its chunks have {} bytes, but the whole array has {}; if the file is not damaged, "
         "give it smaller chunks (h5repack -l CHUNK=...)",
         array.place, bytes, all);
}

// If rows of a chunk are read in parts, HDF5 keeps all chunks of these rows meanwhile, up to a
// limit; or a single chunk whatever its size, if it would else be unpacked for every part.
void reopen_with_cache(const Handle& file, const std::string& name, const Storage& storage,
                       const ElementType& type, OpenArray& array) {
  const char* const what = "cannot be opened again";
  const Handle access = opened(H5Pcreate(H5P_DATASET_ACCESS), array.place, what);
  constexpr std::size_t slots = 12'421, most = std::size_t{256} << 20;
  std::size_t bytes = std::min(static_cast<std::size_t>(array.chunk_rows) * array.row_bytes, most);
  if (storage.is_filtered) bytes = std::max(bytes, chunk_bytes(storage, type));
  checked(H5Pset_chunk_cache(access.get(), slots, bytes, 1), array.place, what);
  array.dataset.close();
  array.dataset = opened(H5Dopen2(file.get(), name.c_str(), access.get()), array.place, what);
}

// A chunk's size may be anything: a file of a few bytes can announce chunks of terabytes.
std::int64_t rows_of_slab(const OpenArray& array, std::size_t bytes) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes / std::max<std::size_t>(1, array.row_bytes)));
}

OpenArray open_array(const Handle& file, const std::string& name, std::string place,
                     ElementType& type) {
  OpenArray array;
  array.place = std::move(place);
  // Slabs are kept here, so HDF5 need not keep chunks.
  const Handle access = opened(H5Pcreate(H5P_DATASET_ACCESS), array.place, "cannot open it");
  checked(H5Pset_chunk_cache(access.get(), 0, 0, 1), array.place, "cannot open it");
  array.dataset =
      opened(H5Dopen2(file.get(), name.c_str(), access.get()), array.place, "cannot open it");
  array.type = opened(H5Dget_type(array.dataset.get()), array.place, "cannot read its type");
  type = element_type_of(array.type, array.place);
  const Handle space =
      opened(H5Dget_space(array.dataset.get()), array.place, "cannot read its shape");
  const int rank =
      checked(H5Sget_simple_extent_ndims(space.get()), array.place, "cannot read its shape");
  array.sizes.resize(static_cast<std::size_t>(rank));
  checked(H5Sget_simple_extent_dims(space.get(), array.sizes.data(), nullptr), array.place,
          "cannot read its shape");
  return array;
}

class ArrayOpener {
 public:
  explicit ArrayOpener(const fs::path& path) : path_(path), mapped_(MappedFile::open(path)) {
    const Turn turn;
    file_ = open_hdf5_file(path.string());
  }
  ~ArrayOpener() {
    const Turn turn;
    file_.close();
  }
  ArrayOpener(const ArrayOpener&) = delete;
  ArrayOpener& operator=(const ArrayOpener&) = delete;

  FileArray open(const std::string& name) const {
    FileArray opened_array{.place = fmt::format("{} in {}", name, path_.string())};
    const Turn turn;
    OpenArray array = open_array(file_, name, opened_array.place, opened_array.type);
    opened_array.sizes.assign(array.sizes.begin(), array.sizes.end());
    // dataset_of() refuses what cannot be a field.
    if (array.sizes.empty() || !is_possible(opened_array.sizes)) return opened_array;
    array.row_bytes = static_cast<std::size_t>(opened_array.type.bytes);
    for (std::size_t axis = 1; axis < array.sizes.size(); ++axis)
      array.row_bytes *= static_cast<std::size_t>(array.sizes[axis]);
    const Storage storage(file_, array);
    opened_array.elements = place_in_file(array, storage);
    opened_array.owner = mapped_;
    if (opened_array.elements == nullptr) {
      const bool is_mapped = choose_slabs(name, opened_array.type, storage, array);
      opened_array.reader =
          is_mapped ? chunk_reader(std::move(array), mapped_) : slab_reader(std::move(array));
    }
    return opened_array;
  }

 private:
  // Of contiguous elements.
  const std::byte* place_in_file(const OpenArray& array, const Storage& storage) const {
    if (!storage.is_in_file || storage.layout != H5D_CONTIGUOUS) return nullptr;
    const haddr_t begin = H5Dget_offset(array.dataset.get());
    const std::size_t bytes = array.row_bytes * static_cast<std::size_t>(array.sizes[0]);
    const std::size_t all = mapped_->bytes().size();
    if (begin == HADDR_UNDEF || H5Dget_storage_size(array.dataset.get()) != bytes || begin > all ||
        bytes > all - begin)
      return nullptr;  // HDF5 says what is wrong, if anything is
    return mapped_->bytes().data() + begin;
  }

  // Returns whether chunks can be mapped.
  bool choose_slabs(const std::string& name, const ElementType& type, const Storage& storage,
                    OpenArray& array) const {
    if (storage.layout != H5D_CHUNKED) {
      array.slab_rows = rows_of_slab(array, slab_bytes);
      return false;
    }
    check_chunk(chunk_bytes(storage, type), array);
    array.chunk_rows = static_cast<std::int64_t>(storage.chunk[0]);
    array.slab_rows = std::min(array.chunk_rows, rows_of_slab(array, largest_slab_bytes));
    if (storage.is_in_file && has_whole_rows(storage, array) &&
        chunks_of(array) <= most_mapped_chunks)
      return true;
    if (array.slab_rows < array.chunk_rows) reopen_with_cache(file_, name, storage, type, array);
    return false;
  }

  fs::path path_;
  std::shared_ptr<const MappedFile> mapped_;
  Handle file_;
};

std::vector<FileArray> open_arrays(const fs::path& path, const std::vector<std::string>& names) {
  const ArrayOpener opener(path);
  std::vector<FileArray> arrays;
  arrays.reserve(names.size());
  for (const std::string& name : names) arrays.push_back(opener.open(name));
  return arrays;
}

}  // namespace
}  // namespace tasuki::hdf5

extern "C" const tasuki::Hdf5Entry tasuki_hdf5_entry{
    .version = TASUKI_PROJECT_VERSION,
    .open = tasuki::hdf5::open_arrays,
};

// ProgramData: where the data of a training program come from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "dataset/dataset.hpp"
#include "dataset/images/image_stream.hpp"
#include "dataset/iterators/share_iterator.hpp"

namespace tasuki {

// Image files that each rank reads during training, instead of a scattered share in memory: those
// to train on and those to evaluate on.
struct StreamedImages {
  std::shared_ptr<const ImageStream> train, test;
  std::string place;                     // where they are, for messages
  std::vector<std::string> class_names;  // empty if they are not known
};

namespace program {

// Which arrays of files are the fields "x" and "t", if ProgramData::dataset is hdf5 or npy
// (add_array_file_flags).
struct ArrayFileSettings {
  std::string fields = "x=x,t=t";
  std::optional<std::string> test_fields;  // default: the same names in `test_data`
  std::optional<std::string> test_data;    // default: --data
  std::optional<std::int64_t> classes;     // default: one more than the largest label
  bool stream = false;                     // each rank reads its examples from the file
};

// What numbers in the data stand for, such as the words of a vocabulary.
struct DataVocabulary {
  std::string flag;   // that names the data, without its dashes: "source"
  std::string place;  // the file, for messages
  std::uint64_t hash = 0;
};

// A base of TrainingProgram, which says in which order its functions are called.
struct ProgramData {
  // Either a data set by name, whose files --data finds (dataset/catalog.hpp), the example shape
  // that the model expects (default: the data set's), and the side length in pixels to which images
  // of a folder are scaled, ...
  std::string dataset;
  std::optional<Shape> example_shape;
  std::int64_t image_side = 32;
  ArrayFileSettings arrays = {};
  // ... or the program's data sets, made on rank 0, which gives each rank its share. Without test
  // data nothing is evaluated.
  std::function<std::shared_ptr<const Dataset>()> train_data, test_data;
  // Returns what the numbers in train_data and test_data stand for. Called on rank 0 after these
  // functions. Snapshots and about.json record the hashes; --resume and --init refuse a snapshot
  // with other hashes.
  std::function<std::vector<program::DataVocabulary>()> vocabularies;
  // If true, every rank calls train_data and test_data and takes its share without communication.
  // For data that all ranks can read or generate.
  bool every_rank_has_data = false;

  // ... or images that every rank reads from its disk while it trains, for data larger than memory
  // (dataset/images/image_stream.hpp). `dataset` is then the name under which --data and
  // TASUKI_DATA are looked up. The flag --augment is left out. Collective.
  std::function<StreamedImages(Communicator& communicator)> stream_images;

  // Groups examples of similar length into training batches. Set it in check_flags() at the
  // latest.
  std::optional<LengthBuckets> length_buckets;
};

}  // namespace program
}  // namespace tasuki

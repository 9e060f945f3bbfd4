// train_mnist and train_cifar on arrays in HDF5, NPY and NPZ files.
#include <fstream>
#include <span>

#ifdef TASUKI_HAS_HDF5
#include <hdf5.h>
#endif

#include "core/error.hpp"
#include "dataset/catalog.hpp"
#include "dataset/in_memory.hpp"
#include "saving/npz.hpp"
#include "tests/support/pictures.hpp"
#include "train_mnist_job.hpp"

namespace tasuki::testing {
namespace {

// A field of all examples as stored.
Tensor stored_values(const Dataset& data, std::size_t number) {
  const Field& field = data.header().fields[number];
  const Tensor values = Tensor::empty(field.batch_shape(data.size()), field.stored);
  StoredField stored(data, number);
  auto* to = static_cast<std::byte*>(values.raw());
  for (std::int64_t i = 0; i < data.size(); ++i) to = std::ranges::copy(stored[i], to).out;
  return values;
}

void write_npy(const std::filesystem::path& path, const Tensor& values) {
  std::ofstream(path, std::ios::binary)
      << npy_header(values)
      << std::string_view(static_cast<const char*>(values.raw()), values.bytes());
}

#ifdef TASUKI_HAS_HDF5
// Chunks of `rows` rows, compressed; 0: contiguous.
void write_hdf5(hid_t file, const char* name, const Tensor& values, hsize_t rows) {
  const Shape& shape = values.shape();
  std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const hid_t space = H5Screate_simple(shape.rank(), sizes.data(), nullptr);
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  if (rows > 0) {
    sizes[0] = rows;
    H5Pset_chunk(how, shape.rank(), sizes.data());
    H5Pset_deflate(how, 1);
  }
  const hid_t type = values.dtype() == DType::uint8 ? H5T_STD_U8LE : H5T_STD_I32LE;
  const hid_t array = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.raw()), 0);
  H5Dclose(array);
  H5Pclose(how);
  H5Sclose(space);
}
#endif

// The digits of TrainMnist in all formats: arrays named x and t.
class ArrayFiles : public TrainMnist {
 protected:
  ArrayFiles() {
    std::vector<NpzEntry> entries;
    for (const bool is_test : {false, true}) {
      const std::string part = is_test ? "test" : "train";
      const auto data_of_part =
          read_dataset(*open_dataset("mnist", data, is_test ? DataSplit::test : DataSplit::train));
      // Without MNIST's axis of one channel.
      const Tensor x = stored_values(*data_of_part, 0), t = stored_values(*data_of_part, 1);
      const Tensor images(x.storage(), x.offset(), {x.shape()[0], 28, 28}, x.dtype());
      std::filesystem::create_directories(folder / part);
      write_npy(folder / (part + "/x.npy"), images);
      write_npy(folder / (part + "/t.npy"), t);
      entries.push_back({"x_" + part, images});
      entries.push_back({"y_" + part, t});
#ifdef TASUKI_HAS_HDF5
      const std::string path = folder / (part + ".h5");
      const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
      write_hdf5(file, "x", images, 0);
      write_hdf5(file, "packed", images, 7);
      write_hdf5(file, "t", t, 0);
      H5Fclose(file);
#endif
    }
    write_npz(folder / "digits.npz", entries);
  }

  // The losses and the evaluations of a run, as texts: to the bit.
  std::vector<std::string> bits(int np, const std::vector<std::string>& flags) {
    const std::vector<std::string> all =
        with({"--epoch", "2", "--batchsize", "24", "--log-every", "1", "--classes", "10"}, flags);
    // --classes is a flag of arrays only.
    const bool is_mnist = flags.empty();
    const auto log = log_of(np, "out", is_mnist ? std::vector(all.begin(), all.end() - 2) : all);
    std::vector<std::string> found;
    for (const auto& entry : log)
      for (const char* const key : {"main/loss", "validation/main/loss"})
        if (entry.contains(key)) found.push_back(entry.at(key).dump());
    EXPECT_GT(found.size(), 5u);
    return found;
  }
  std::vector<std::string> hdf5(const std::string& images, const std::vector<std::string>& more) {
    return with({"--dataset", "hdf5", "--fields", "x=" + images + ",t=/t", "--data",
                 folder / "train.h5", "--test-data", folder / "test.h5"},
                more);
  }
  std::vector<std::string> npy(const std::vector<std::string>& more) {
    return with({"--dataset", "npy", "--data", folder / "train", "--test-data", folder / "test"},
                more);
  }
  void refuse(const std::vector<std::string>& flags, ErrorKind kind,
              const std::vector<std::string>& words, int np = 2,
              const std::map<std::string, std::string>& environment = {}) {
    const Finished job = run_program(mpirun(np, program("out", flags)), 60, environment);
    EXPECT_EQ(job.exit_code, static_cast<int>(kind)) << job.all();
    EXPECT_EQ(count_of(job.err, "error: "), 1) << job.all();
    for (const std::string& word : words)
      EXPECT_EQ(count_of(job.err, word), 1) << word << "\n--- in ---\n" << job.all();
  }
};

TEST_F(ArrayFiles, TrainToTheBitsOfMnist) {
  const std::vector<std::string> npz = {
      "--dataset",           "npy",           "--data",           folder / "digits.npz", "--fields",
      "x=x_train,t=y_train", "--test-fields", "x=x_test,t=y_test"};
  for (const int np : {1, 2, 3}) {
    SCOPED_TRACE(np);
    const auto expected = bits(np, {});
    EXPECT_EQ(bits(np, npy({"--stream"})), expected);
    if (np == 1) {
      EXPECT_EQ(bits(np, npz), expected);
    }
    if (np == 2) {
      EXPECT_EQ(bits(np, npy({})), expected);
      EXPECT_EQ(bits(np, with(npz, {"--stream", "--loader-threads", "2"})), expected);
    }
#ifdef TASUKI_HAS_HDF5
    EXPECT_EQ(bits(np, hdf5("/packed", {"--stream", "--loader-threads", "3"})), expected);
    if (np == 2) {
      EXPECT_EQ(bits(np, hdf5("/packed", {})), expected);
      EXPECT_EQ(bits(np, hdf5("/x", {"--stream"})), expected);
    }
#endif
  }
#ifndef TASUKI_HAS_HDF5
  GTEST_SKIP() << "HDF5 was left out: this build has none (libhdf5-dev)";
#endif
}

TEST_F(ArrayFiles, FindTheClassesAndNeedNoTestData) {
  const Finished job =
      run(2, "out", {"--dataset", "npy", "--data", folder / "train", "--epoch", "1", "--stream"});
  EXPECT_EQ(job.exit_code, 0) << job.all();
  const auto log = read_log("out");
  EXPECT_TRUE(log.back().contains("main/loss"));
  EXPECT_FALSE(log.back().contains("validation/main/loss"));
}

TEST_F(ArrayFiles, AreRefusedInOneLine) {
  write_npy(folder / "train/wide.npy", Tensor::zeros({480, 28, 29}, DType::uint8));
  write_npy(folder / "train/float.npy", Tensor::zeros({480}, DType::float32));
  const auto fields = [&](const std::string& text) { return npy({"--fields", text}); };
  refuse(fields("x=wide,t=t"), ErrorKind::data,
         {"field 'x': ", "wide.npy: expected examples of shape 784", "found shape 28x29"});
  refuse(fields("x=wide,t=t"), ErrorKind::data, {"wide.npy"}, 1);
  refuse(with(fields("x=wide,t=t"), {"--stream", "--classes", "10"}), ErrorKind::data,
         {"found shape 28x29"});
  refuse(fields("x=x,t=float"), ErrorKind::data,
         {"field 't': ", "float.npy: expected numbers for int32, found float32"});
  refuse(fields("x=none,t=t"), ErrorKind::missing, {"none.npy", "no such file"});
  refuse(fields("x=x"), ErrorKind::usage, {"--fields: expected arrays for the fields x and t"});
  // Each rank may meet one, in its own batch.
  const Finished labelled = run(2, "out", npy({"--classes", "4"}));
  EXPECT_EQ(labelled.exit_code, static_cast<int>(ErrorKind::data)) << labelled.all();
  EXPECT_GE(count_of(labelled.err, ", expected 0 .. 3;"), 1) << labelled.all();
  refuse({"--stream"}, ErrorKind::usage, {"--stream: only with --dataset hdf5 or npy"});
  const Finished job =
      run_program(mpirun(2, {TRAIN_MNIST, "--dataset", "hdf5", "--out", folder / "other"}));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::usage)) << job.all();
  EXPECT_EQ(count_of(job.err, "--dataset hdf5: expected --data FILE"), 1) << job.all();
  refuse(hdf5("/x", {}), ErrorKind::unavailable, {"HDF5 cannot be loaded: ", "none.so"}, 2,
         {{"TASUKI_HDF5_LIBRARY", folder / "none.so"}});
}

#ifdef TASUKI_HAS_HDF5
TEST_F(ArrayFiles, OfHdf5AreRefusedInOneLine) {
  refuse(hdf5("/none", {}), ErrorKind::data, {"/none in ", "cannot open it", "doesn't exist"});
  refuse(hdf5("/none", {"--stream", "--classes", "10"}), ErrorKind::data, {"/none in "});
  std::ofstream(folder / "train.h5") << "other";
  refuse(hdf5("/x", {}), ErrorKind::data, {"train.h5: cannot open it as HDF5"});
}
#endif

class CifarArrays : public TrainingJob {
 protected:
  CifarArrays() : TrainingJob({TRAIN_CIFAR, "--conv", "direct", "--arch", "cnn10"}) {
    write_pictures(data, 40, 10);
    const auto pictures = read_dataset(*open_dataset("cifar10", data, DataSplit::train));
    write_npy(folder / "x.npy", stored_values(*pictures, 0));
    write_npy(folder / "t.npy", stored_values(*pictures, 1));
  }
  std::vector<std::string> flags = {"--max-iterations", "2", "--global-batch", "8"};
};

TEST_F(CifarArrays, TrainToTheBitsOfCifar) {
  const auto losses = [&](const std::vector<std::string>& more) {
    return values_of(log_of(2, "out", with(flags, more)), "main/loss");
  };
  const std::vector<double> expected = losses({});
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(losses({"--dataset", "npy", "--data", folder.path(), "--stream", "--classes", "10"}),
            expected);
}

TEST_F(CifarArrays, AreRefusedInOneLine) {
  write_npy(folder / "x.npy", Tensor::zeros({40, 32, 32, 3}, DType::uint8));
  const Finished job = run(2, "out", with(flags, {"--dataset", "npy", "--data", folder.path()}));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::data)) << job.all();
  EXPECT_EQ(count_of(job.err, "field 'x': expected images of channels x height x width"), 1)
      << job.all();
  EXPECT_EQ(count_of(job.err, "found examples of shape 32x32x3"), 1) << job.all();
}

}  // namespace
}  // namespace tasuki::testing

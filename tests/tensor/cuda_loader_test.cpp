// All errors of loading the CUDA backend, with drivers and backends made for the test.
#include "tensor/cuda_loading/loader.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::run_program;
using Environment = std::map<std::string, std::string>;

constexpr int unavailable = static_cast<int>(ErrorKind::unavailable);

class CudaLoader : public ::testing::Test {
 protected:
  // The probe with the fake driver and, unless told otherwise, a fake backend whose dependency is
  // on the loader's path.
  static Finished probe(Environment changes) {
    changes.try_emplace("TASUKI_CUDA_LIBRARY", FAKE_BACKEND);
    changes.try_emplace("LD_LIBRARY_PATH",
                        std::string(FAKE_DRIVER_FOLDER) + ":" + DEPENDENCY_FOLDER);
    return run_program({PROBE}, 60, changes);
  }
  static fs::path dependency() { return fs::path(DEPENDENCY_FOLDER) / "libfake_dependency.so"; }
  static void expect_error(const Environment& changes, const std::string& part) {
    const Finished finished = probe(changes);
    EXPECT_EQ(finished.exit_code, unavailable) << finished.all();
    EXPECT_NE(finished.out.find(part), std::string::npos) << finished.all();
    EXPECT_EQ(testing::count_of(finished.all(), "\n"), 1) << finished.all();
  }

  testing::TemporaryFolder folder;
};

TEST_F(CudaLoader, LoadsABackendAndCountsDevices) {
  const Finished finished = probe({{"FAKE_CUDA_DEVICES", "3"}});
  EXPECT_EQ(finished.exit_code, 0) << finished.all();
  EXPECT_EQ(finished.out, "3\n");
}

TEST_F(CudaLoader, ReportsMissingDriver) {
  std::ofstream(folder / "libcuda.so.1") << "no library";
  expect_error({{"LD_LIBRARY_PATH", folder.path()}}, "no NVIDIA driver was found on this machine");
}

TEST_F(CudaLoader, ReportsDriverThatDoesNotStart) {
  expect_error({{"FAKE_CUDA_INIT", "999"}, {"FAKE_CUDA_VERSION", "12040"}},
               "the NVIDIA driver (for CUDA 12.4) does not start: an error of the test "
               "(CUDA_ERROR_OF_THE_TEST)");
}

TEST_F(CudaLoader, ReportsOldDriver) {
  expect_error({{"FAKE_CUDA_VERSION", "12020"}},
               "the NVIDIA driver supports CUDA 12.2 at most, but this CUDA backend was built with "
               "CUDA 13.0");
}

TEST_F(CudaLoader, ExplainsMissingDevices) {
  for (const Environment& no_device :
       {Environment{{"FAKE_CUDA_DEVICES", "0"}}, Environment{{"FAKE_CUDA_INIT", "100"}}}) {
    Environment empty = no_device, other = no_device;
    empty["CUDA_VISIBLE_DEVICES"] = "";
    other["CUDA_VISIBLE_DEVICES"] = "7";
    expect_error(empty, "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs");
    expect_error(other, "CUDA_VISIBLE_DEVICES=7 leaves no GPU of this machine visible");
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr)
      expect_error(no_device, "the NVIDIA driver sees no GPU on this machine");
  }
}

TEST_F(CudaLoader, ReportsMissingBackend) {
  // A libtasuki.so with nothing beside it.
  fs::copy(TASUKI_LIBRARY, folder / TASUKI_SONAME);
  expect_error({{"LD_LIBRARY_PATH", folder.path()}, {"TASUKI_CUDA_LIBRARY", ""}},
               "this Tasuki was built without CUDA: there is no libtasuki_cuda.so in " +
                   folder.path().string());
}

TEST_F(CudaLoader, ReportsInvalidBackendPath) {
  expect_error({{"TASUKI_CUDA_LIBRARY", folder / "none.so"}},
               "TASUKI_CUDA_LIBRARY names " + (folder / "none.so").string());
  expect_error({{"TASUKI_CUDA_LIBRARY", "libno-such-backend.so"}},
               "TASUKI_CUDA_LIBRARY names libno-such-backend.so");
  expect_error({{"TASUKI_CUDA_LIBRARY", TASUKI_LIBRARY}}, "is not a CUDA backend of Tasuki");
  std::ofstream(folder / "text.so") << "no library";
  expect_error({{"TASUKI_CUDA_LIBRARY", folder / "text.so"}}, "the CUDA backend cannot be loaded");
}

TEST_F(CudaLoader, RejectsBackendOfAnotherVersion) {
  expect_error({{"TASUKI_CUDA_LIBRARY", OTHER_FAKE_BACKEND}},
               "belongs to Tasuki 99.0, but this is");
}

TEST_F(CudaLoader, NamesMissingLibrary) {
  expect_error({{"LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER}},
               "the CUDA backend needs libfake_dependency.so, which is neither on the loader's "
               "path nor in CUDA_HOME");
}

TEST_F(CudaLoader, FindsLibrariesInCudaHomeAndWheels) {
  const fs::path wheel = folder / "nvidia/some/lib", lib = folder / "lib64";
  fs::create_directories(wheel);
  fs::create_directories(lib);
  fs::create_symlink(dependency(), wheel / dependency().filename());
  fs::create_symlink(dependency(), lib / dependency().filename());
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "PYTHONPATH"}) {
    const Finished finished =
        probe({{"LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER}, {variable, folder.path()}});
    EXPECT_EQ(finished.out, "1\n") << variable << finished.all();
  }
}

TEST_F(CudaLoader, FindsLibrariesInPyTorch) {
  const fs::path lib = folder / "torch/lib";
  fs::create_directories(lib);
  fs::create_symlink(dependency(), lib / dependency().filename());
  const Finished finished =
      probe({{"LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER}, {"PYTHONPATH", folder.path()}});
  EXPECT_EQ(finished.out, "1\n") << finished.all();
}

// cuDNN opens the first one by its name alone, and that one the second.
TEST_F(CudaLoader, LoadsNvrtcFromWheels) {
  const fs::path wheel = folder / "nvidia/cu99/lib";
  fs::create_directories(wheel);
  const std::vector<std::string> names = {"libnvrtc.so.99", "libnvrtc-builtins.so.99.0"};
  for (const std::string& name : names) fs::copy(dependency(), wheel / name);
  const auto is_open = [&](const std::string& name) {
    return ::dlopen((wheel / name).c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
  };
  EXPECT_FALSE(open_runtime_compiler(99));
  ::setenv("PYTHONPATH", folder.path().c_str(), 1);
  EXPECT_TRUE(open_runtime_compiler(99));
  ::unsetenv("PYTHONPATH");
  for (const std::string& name : names) EXPECT_TRUE(is_open(name)) << name;
}

TEST_F(CudaLoader, LoadsTheRealBackend) {
#ifdef REAL_BACKEND
  const Finished finished =
      run_program({PROBE}, 60,
                  {{"TASUKI_CUDA_LIBRARY", REAL_BACKEND}, {"LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER}});
  EXPECT_EQ(finished.out, "1\n") << finished.all();
#else
  GTEST_SKIP() << "built without CUDA";
#endif
}

TEST(MissingLibrary, IsParsedFromTheLoadersMessage) {
  EXPECT_EQ(missing_library("libcudnn.so.9: cannot open shared object file: No such file or "
                            "directory"),
            "libcudnn.so.9");
  EXPECT_EQ(missing_library("/x/y.so: undefined symbol: z"), "");
}

TEST(CudaDriverVersion, MustMatchTheToolkitsMajorVersion) {
  EXPECT_NO_THROW(check_cuda_driver_version(13000, 13000));
  EXPECT_NO_THROW(check_cuda_driver_version(12000, 12080));
  EXPECT_NO_THROW(check_cuda_driver_version(13010, 12080));
  EXPECT_THROW(check_cuda_driver_version(12090, 13000), Error);
}

}  // namespace
}  // namespace tasuki

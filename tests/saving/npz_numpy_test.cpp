// NPZ files against NumPy itself, where it is installed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "saving/npz.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

bool has_numpy(const std::string& python) {
  return std::system(fmt::format("{} -c 'import numpy' > /dev/null 2>&1", python).c_str()) == 0;
}

// The one that $TASUKI_TEST_PYTHON names, or the first with NumPy; a python3 of somebody's own may
// come before Debian's. Empty when there is none.
std::string find_python() {
  const char* chosen = std::getenv("TASUKI_TEST_PYTHON");
  for (const char* python : {chosen ? chosen : "python3", "/usr/bin/python3"})
    if (has_numpy(python)) return python;
  return "";
}

const std::string& python() {
  static const std::string found = find_python();
  return found;
}

int run_python(const std::filesystem::path& folder, const std::string& script) {
  std::ofstream(folder / "script.py") << script;
  return std::system(
      fmt::format("cd {} && {} script.py > output 2>&1", folder.string(), python()).c_str());
}

class NpzNumpy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (python().empty())
      GTEST_SKIP() << "needs an interpreter with NumPy: apt-get install python3-numpy, or name one "
                      "in TASUKI_TEST_PYTHON";
  }
  testing::TemporaryFolder folder;
};

TEST_F(NpzNumpy, IsReadByNumPy) {
  const std::vector<float> w{1, 2, 3, 4, 5, 0.1F};
  const std::vector<std::int64_t> n{-5};
  write_npz(folder / "ours.npz",
            {{"predictor/l1/W", Tensor::from(std::span<const float>(w), Shape{2, 3})},
             {"half", Tensor::from(std::span<const float>(w), Shape{6}).to(DType::float16)},
             {"t", Tensor::from(std::span<const std::int64_t>(n), Shape{})},
             {"log", std::string("[1, 2]")},
             {"nothing", Tensor::empty(Shape{0, 3})}});
  EXPECT_EQ(run_python(folder.path(), R"(
import numpy as np
f = np.load('ours.npz')
assert f.files == ['predictor/l1/W', 'half', 't', 'log', 'nothing'], f.files
w = f['predictor/l1/W']
assert w.dtype == np.float32 and w.shape == (2, 3)
assert (w == np.float32([[1, 2, 3], [4, 5, 0.1]])).all()
assert f['half'].dtype == np.float16 and f['half'][5] == np.float16(0.1)
assert f['t'].shape == () and f['t'] == -5 and f['t'].dtype == np.int64
assert str(f['log']) == '[1, 2]', f['log']
assert f['nothing'].shape == (0, 3)
)"),
            0);
}

TEST_F(NpzNumpy, ReadsFilesOfNumPy) {
  ASSERT_EQ(run_python(folder.path(), R"(
import numpy as np
a = {'predictor/l1/W': np.arange(6, dtype=np.float32).reshape(2, 3), 'n': np.array(7),
     'd': np.array([0.1]), 'flag': np.array(True), 'text': np.array('hello'),
     'empty': np.zeros((0, 2), np.int32)}
np.savez('stored.npz', **a)
np.savez_compressed('deflated.npz', **a)
)"),
            0);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(name);
    const NpzFile file(folder / name);
    const Tensor w = std::get<Tensor>(file.read("predictor/l1/W"));
    EXPECT_EQ(w.shape(), (Shape{2, 3}));
    EXPECT_EQ(w.data<float>()[5], 5.0F);
    EXPECT_EQ(std::get<Tensor>(file.read("n")).item(), 7);
    EXPECT_EQ(std::get<Tensor>(file.read("d")).item(), 0.1);
    EXPECT_EQ(std::get<Tensor>(file.read("flag")).item(), 1);
    EXPECT_EQ(std::get<std::string>(file.read("text")), "hello");
    EXPECT_EQ(std::get<Tensor>(file.read("empty")).shape(), (Shape{0, 2}));
  }
}

}  // namespace
}  // namespace tasuki

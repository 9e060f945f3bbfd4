// What predict says about models and inputs that it cannot use.
#include "predict_job.hpp"
#include "saving/npz.hpp"

namespace tasuki::testing {
namespace {

class PredictWeights : public PredictDigits {
 protected:
  // The weights alone, as Chainer's save_npz writes a classifier; with the last bias's values set
  // to `bias`, if given.
  std::string write_model_file(const std::string& name = "model.npz",
                               std::optional<float> bias = {}) {
    const NpzFile snapshot(result() + "/snapshot_iter_10");
    const std::string prefix = "updater/model:main/";
    std::vector<NpzEntry> entries;
    for (const std::string& name : snapshot.names())
      if (name.starts_with(prefix))
        entries.push_back({name.substr(prefix.size()), snapshot.read(name)});
    fs::create_directories(folder / "model");
    if (bias) std::get<Tensor>(entries.back().value).fill(*bias);
    write_npz(folder / ("model/" + name), entries);
    return folder / ("model/" + name);
  }
};

TEST_F(PredictWeights, NeedsTheNetworkOfAWeightsFile) {
  const std::string model = write_model_file();
  EXPECT_EQ(summary_of(1, {model, data, "--arch", "mlp"}).at("accuracy"), accuracy());
  expect_lines(
      {{{model, data},
        "model.npz: no about.json beside it says which network it is; give --arch",
        ErrorKind::usage},
       {{model, "--arch", "mlp"},
        "the model's test data are not known; give --data",
        ErrorKind::usage},
       {{model, data, "--arch", "lenet"}, "give --standardize on or off", ErrorKind::usage},
       {{model, data, "--arch", "lenet", "--standardize", "off"},
        "model.npz is of another model: conv1/W (20x1x3x3) is not in the file",
        ErrorKind::data},
       {{model, data, "--arch", "mlp", "--unit", "33"},
        "is of another model: l1/W is 32x784",
        ErrorKind::data},
       {{model, data, "--arch", "mlp", "--classes", "11"},
        "l3/W is 10x32 in the file",
        ErrorKind::data}});
  const std::string diverged = write_model_file("diverged.npz", NAN);
  expect_lines({{{diverged, data, "--arch", "mlp"},
                 "example 0: the model's scores are not finite numbers",
                 ErrorKind::data}});
  // An older run's about.json has neither flags nor program.
  write_file(folder / "model/about.json", R"({"version": "0.1", "data": "here"})");
  expect_lines({{{model, data}, "no about.json beside it", ErrorKind::usage}});
  write_file(folder / "model/about.json", R"({"program": "own_program"})");
  expect_lines({{{model, data},
                 "it is not known which is the network of own_program; give --arch",
                 ErrorKind::usage}});
  const std::string deep(200'000, '[');
  for (const std::string& text : {std::string("[1]"), deep, deep + std::string(200'000, ']')}) {
    write_file(folder / "model/about.json", text);
    expect_lines(
        {{{model, data}, "about.json: expected the file of a training program", ErrorKind::data}});
  }
  for (const char* shape : {"[-1]", "[1, 2, 3, 4, 5, 6, 7]", "[1e300]", "[null]", "[[[]]]",
                            "[1099511627776, 1099511627776]", "[9223372036854775807]"}) {
    write_file(folder / "model/about.json",
               fmt::format(R"({{"program": "train_cifar", "example": {{"shape": {}}}}})", shape));
    expect_lines({{{model, data}, "about.json: the shape of an example: ", ErrorKind::data}});
  }
  write_file(folder / "model/about.json", R"({"program": "a\u001b[2J\u009b"})");
  expect_lines({{{model, data}, "the network of a?[2J?; give", ErrorKind::usage}});
}

TEST_F(PredictDigits, RejectsBadInputInOneLine) {
  const auto write = [&](const std::string& name, const std::string& contents) {
    write_file(folder / name, contents);
    return std::string(folder / name);
  };
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "classes/a");
  std::string damaged = read_file(result() + "/snapshot_iter_10");
  damaged[damaged.size() / 2] ^= 1;
  const std::string small = std::string(
      "\0\0\x8\x3\0\0\0\x1\0\0\0\x2\0\0\0\x2"
      "abcd",
      20);
  expect_lines(
      {{{folder / "nothing", data}, "nothing: no such file", ErrorKind::missing},
       {{folder / "empty", data},
        "there is no checkpoint or snapshot_iter_<number> in this folder",
        ErrorKind::missing},
       {{write("text.npz", "no model"), data}, "text.npz", ErrorKind::data},
       {{write("damaged", damaged), data, "--arch", "mlp"},
        "is damaged: its hash",
        ErrorKind::data},
       {{result(), folder / "nothing"},
        "nothing: expected images, found no such file",
        ErrorKind::missing},
       {{result(), folder / "empty"},
        "empty: expected images (.jpg, .jpeg, .png)",
        ErrorKind::missing},
       {{result(), write("text", "no image")},
        "text: expected a JPEG or PNG image, an IDX file",
        ErrorKind::data},
       {{result(), write("broken.png", "\x89PNG\r\n\x1a\n")}, "broken.png", ErrorKind::data},
       {{result(), data, folder / "broken.png"}, "several inputs are images", ErrorKind::usage},
       {{result(), labels()}, "expected images, found labels", ErrorKind::data},
       {{result(), write("small", small)},
        "small: expected examples of shape 784, which the model takes, found 1x2x2",
        ErrorKind::data},
       {{result(), folder / "classes"},
        "expected a subfolder for each of the model's 10",
        ErrorKind::data},
       {{result(), images(), "--labels", write("few", "1\n2\n")},
        "few: expected 100 labels, as many as examples in",
        ErrorKind::data},
       {{result(), images(), "--labels", write("other", "1\n10\n")},
        "other: line 2: expected a number from 0 to 9, found '10'",
        ErrorKind::data},
       {{result(), images(), "--labels", images()},
        "expected labels, found images",
        ErrorKind::data},
       {{result(), "--classes-file", folder / "few"},
        "few: expected the names of 10 classes",
        ErrorKind::data},
       {{result(), "--out", folder.path()},
        "expected the name of a file, found a folder",
        ErrorKind::cannot_write},
       {{result(), data, "--data", data}, "give the input once", ErrorKind::usage},
       {{result(), "--model", data}, "give the model once", ErrorKind::usage},
       {{result(), "--arch", "mpl"}, "did you mean mlp?", ErrorKind::usage}});
  // Once for all ranks.
  const Finished job = run_program(mpirun(2, predict_words({result(), folder / "nothing"})));
  EXPECT_EQ(job.exit_code, static_cast<int>(ErrorKind::missing)) << job.all();
  EXPECT_EQ(count_of(job.err, "expected images, found no such file"), 1) << job.all();
}

}  // namespace
}  // namespace tasuki::testing

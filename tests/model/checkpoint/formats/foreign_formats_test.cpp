#include "model/checkpoint/formats/foreign_formats.h"

#include "model/checkpoint/formats/weight_file.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace foreign_formats_test {

using namespace std::string_literals;
using hydrascope::testing::TemporaryFolder;

struct Foreign {
  const char* format;
  std::string bytes;
  const char* says;
};

/// The first bytes of real files.
std::vector<Foreign> foreign_files() {
  return {
      {"git_lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "git lfs pull"},
      {"git_annex_pointer", "/annex/objects/SHA256E-s1--0\n", "git annex get"},
      {"html", "<!DOCTYPE html>", "HTML page"},
      {"html", "<!doctype HTML>", "HTML page"},
      {"html", " \r\n\t<HtMl lang=en>", "HTML page"},
      {"html", "\xEF\xBB\xBF<html>", "HTML page"},
      {"xml", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "failed download"},
      {"openvino", "<?xml version=\"1.0\"?>\n<net name=\"a\" version=\"11\">", "an OpenVINO model"},
      {"json", "{\"error\": \"not found\"}", "a JSON text"},
      {"text", "Entry not found", "a text that begins with \"Entry not found\""},
      {"text", "<svg>", "a text that begins with"},
      {"text", "   ", "a text"},
      {"zeros", std::string(4096, '\0'), "zeros: a download that was not finished"},
      {"gguf", "GGUF\x03\0\0\0"s, "a GGUF file"},
      {"ggml", "lmgg\x01\0\0\0\0\x02\0\0"s, "from before GGUF"},
      {"ggml", "tjgg\x03\0\0\0"s, "from before GGUF"},
      {"hdf5", "\x89HDF\r\n\x1A\n\0\0"s, "an HDF5 file"},
      {"msgpack", "\x82\xA6params\x81\xA4head", "a msgpack file"},
      {"msgpack", "\xDE\0\x10\xD9\x20layers_0"s, "a msgpack file"},
      {"npy", "\x93NUMPY\x01\0v\0{'descr'"s, "an array of NumPy"},
      {"onnx", "\x08\x08\x12\x07pytorch\x1A\x05", "an ONNX model"},
      {"onnx", "\x08\x07\x3A\xF2\x01\x0A\x10", "an ONNX model"},
      {"onnx", "\x08\x0A\x12\0\x1A\0:\x20"s, "an ONNX model"},
      {"onnx", "\x08\0\0\0ORTM"s, "an ONNX model"},
      {"tflite", "\x1C\0\0\0TFL3\x14\0"s, "a TensorFlow Lite model"},
      {"executorch", "\x1C\0\0\0ET12\0\0"s, "an ExecuTorch program"},
      {"coreml", "\x08\x05\x12\x8C\x01\x0A\x2A", "a Core ML model"},
      {"tensorflow", "\x08\x01\x12\xE3\x41\x0A\x2A", "a file of TensorFlow"},
      {"tensorflow", "\x0A\x2A\x0A\x05input\x12\x0BPlaceholder", "a file of TensorFlow"},
      {"caffe",
       "\x0A\x05"
       "Caffe\xA2\x06\x30",
       "a Caffe model"},
      {"tensorrt", "ftrt\0\0"s, "a TensorRT engine"},
      {"mxnet", "\x12\x01\0\0\0\0\0\0\0\0"s, "an MXNet file"},
      {"darknet", "\0\0\0\0\x02\0\0\0\x05\0"s, "a Darknet file"},
      {"old_pickle", "(dp0\nS'a'\np1\n", "a pickle of the protocol 0 or 1"},
      {"old_pickle", "L119547037146038801333356L\n.", "a pickle of the protocol 0 or 1"},
      {"archive", "\x1F\x8B\x08\0"s, "archive"},
      {"archive", "\xFD\x37zXZ\0\0"s, "archive"},
      {"archive", "weights.pth" + std::string(246, '\0') + "ustar  ", "archive"},
      {"picture", "\xFF\xD8\xFF\xE0", "a picture"},
      {"picture", "\x89PNG\r\n\x1A\n", "a picture"},
      {"picture", "RIFF\x10\0\0\0WEBPVP8 "s, "a picture"},
      {"picture",
       "\0\0\0\x18"
       "ftypheic"s,
       "a picture"},
      {"video",
       "\0\0\0\x18"
       "ftypmp42"s,
       "a video"},
      {"pdf", "%PDF-1.7", "a PDF document"},
      {"program",
       "\x7F"
       "ELF\x02",
       "a program"},
      {"unknown", "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A",
       "no known format: 10 bytes that begin with 01 02 03 04 05 06 07 08"},
  };
}

TEST(ForeignFormatsTest, AreKnownByTheirFirstBytes) {
  for (const auto& [format, bytes, says] : foreign_files())
    EXPECT_EQ(sniff_format(bytes_of(bytes)), format) << says;
  EXPECT_EQ(sniff_format({}), "empty");
  EXPECT_EQ(sniff_format(bytes_of(file_of("{}"))), "safetensors");
  EXPECT_EQ(sniff_format(bytes_of("PK\x03\x04\0\0\x08\x08\0\0"s)), "torch_zip");
  EXPECT_EQ(sniff_format(bytes_of("\x80\x02\x8A\nl\xFC\x9C"
                                  "F\xF9 j\xA8P\x19.")),
            "torch_legacy");
  EXPECT_EQ(sniff_format(bytes_of(std::string(8, '\xFF') + "{")), "unknown");
}

TEST(ForeignFormatsTest, AreRefusedByNameWhateverTheFileIsCalled) {
  const TemporaryFolder folder;
  for (const auto& [format, bytes, says] : foreign_files()) {
    for (const char* name : {"x.pth", "x.bin", "x.onnx", "x.safetensors"}) {
      const auto file = folder.write(name, bytes);
      try {
        WeightFile::open(file);
        ADD_FAILURE() << format << " is read";
      } catch (const Error& error) {
        EXPECT_TRUE(
            hydrascope::testing::matches(error, ErrorCode::unsupported_format, {says, name}))
            << format;
        EXPECT_EQ(std::string(error.what()).find("header of"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_ERROR(WeightFile::open(folder.write("x.pth", "")), empty, "the file is empty");
  EXPECT_ERROR(WeightFile::open(folder.write(
                   "m.ckpt.index", std::string(40, '\1') + "\x57\xFB\x80\x8B\x24\x75\x47\xDB")),
               unsupported_format, "a file of TensorFlow");
}

/// Every length and every cut of a name may stand at the begin of a file.
TEST(ForeignFormatsTest, AnyBytesHaveAName) {
  for (const auto& [format, bytes, says] : foreign_files()) {
    for (std::size_t size = 0; size < std::min<std::size_t>(bytes.size(), 300); ++size)
      EXPECT_FALSE(sniff_format(bytes_of(bytes.substr(0, size))).empty());
  }
}

}  // namespace foreign_formats_test
}  // namespace hydrascope::checkpoint

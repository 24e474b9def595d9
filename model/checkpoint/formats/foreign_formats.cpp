#include "model/checkpoint/formats/foreign_formats.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>

namespace hydrascope::checkpoint {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kSniffed = 512;

/// The mark of `format`: `bytes` at `offset`.
struct Signature {
  std::string_view format;
  std::string_view bytes;
  std::size_t offset = 0;
};

constexpr std::array kSignatures{
    Signature{"git_lfs_pointer", "version https://git-lfs"},
    Signature{"torch_zip", "PK\x03\x04"},
    Signature{"torch_zip", "PK\x05\x06"},
    Signature{"gguf", "GGUF"},
    // Words of four letters, whose last letter comes first in a little-endian file.
    Signature{"ggml", "lmgg"},
    Signature{"ggml", "fmgg"},
    Signature{"ggml", "tjgg"},
    Signature{"hdf5", "\x89HDF\r\n\x1A\n"},
    Signature{"archive", "\x1F\x8B"},
    Signature{"archive", "\xFD\x37zXZ\0"sv},
    Signature{"archive", "ustar", 257},
    Signature{"picture", "\xFF\xD8\xFF"},
    Signature{"picture", "\x89PNG\r\n"},
    Signature{"picture", "WEBP", 8},
};

struct ForeignFormat {
  std::string_view name;
  std::string_view what;
  std::string_view hint =
      "open it in Python with what wrote it, and save the weights as safetensors";
};

constexpr std::string_view kFormatOnly =
    "convert it to safetensors, which convert `format_only` does";

constexpr std::array kFormats{
    ForeignFormat{"safetensors", "a safetensors file", ""},
    ForeignFormat{"torch_zip", "a zip archive, as torch.save writes it", kFormatOnly},
    ForeignFormat{"torch_legacy", "a pickle, as torch.save wrote it before PyTorch 1.6",
                  kFormatOnly},
    ForeignFormat{"git_lfs_pointer", "a Git LFS pointer, which only names the weights",
                  "fetch what it points to: git lfs pull in its repository"},
    ForeignFormat{"html", "an HTML page: a failed download",
                  "check the link and whether it asks for a login, then download the file again"},
    ForeignFormat{"json", "a JSON text",
                  "a configuration is read beside the weights: name their file or the folder"},
    ForeignFormat{"zeros", "zeros: a download that was not finished", "download the file again"},
    ForeignFormat{"gguf", "a GGUF file"},
    ForeignFormat{"ggml", "a file of ggml, from before GGUF"},
    ForeignFormat{"hdf5", "an HDF5 file, as Keras and TensorFlow write it"},
    ForeignFormat{"msgpack", "a msgpack file, as Flax writes it"},
    ForeignFormat{"onnx", "an ONNX model"},
    ForeignFormat{"archive", "a compressed or packed archive",
                  "unpack it and name the weights inside"},
    ForeignFormat{"picture", "a picture", "-m takes weights; pictures are named without an option"},
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0;
}

bool is_printable(char c) {
  return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\r' || c == '\t' || c == '\f';
}

/// Whether letters that could begin a name stand at `at`.
bool names_something(std::string_view text, std::size_t at) {
  const std::uint8_t c = byte_at(text, at);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Markup and JSON, after any blanks and byte order mark; "" for anything else.
std::string_view sniff_markup(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\f"), text.size()));
  const auto begins_with = [text](std::string_view tag) {
    return text.size() >= tag.size() &&
           std::equal(tag.begin(), tag.end(), text.begin(), [](char expected, char found) {
             return expected == (found >= 'A' && found <= 'Z' ? found - 'A' + 'a' : found);
           });
  };
  if (begins_with("<!doctype") || begins_with("<html")) return "html";
  const bool is_object = text.size() > 1 && text.front() == '{' &&
                         text.find_first_of("\"}", 1) == text.find_first_not_of(" \t\r\n", 1);
  return is_object ? "json" : "";
}

/// Messages of protobuf have no signature, but the first fields of ONNX serve as one: its version, then a field whose
/// number is times 8, and 2 more if a length follows.
bool is_onnx(std::string_view text) {
  constexpr std::uint8_t kVersion = 0x08;  // field 1, a number
  constexpr std::uint8_t kNewest = 20;
  constexpr std::uint8_t kProducer = 0x12;
  const std::uint8_t version = byte_at(text, 1);
  if (byte_at(text, 0) != kVersion || version < 1 || version > kNewest) return false;
  const std::uint8_t second = byte_at(text, 2);
  // Core ML has a message in the producer's place.
  if (second == kProducer) return byte_at(text, 3) == 0 || names_something(text, 4);
  constexpr std::array<std::uint8_t, 6> kOthers{0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42};
  return std::ranges::find(kOthers, second) != kOthers.end();
}

/// Whether it is a map of msgpack whose first key is a name: "params".
bool is_msgpack(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  const std::size_t key = first == 0xDE ? 3 : first == 0xDF ? 5 : 1;
  if (key == 1 && (first < 0x81 || first > 0x8F)) return false;
  const std::uint8_t kind = byte_at(text, key);
  return (kind >= 0xA1 && kind <= 0xBF && names_something(text, key + 1)) ||
         (kind == 0xD9 && names_something(text, key + 2));
}

}  // namespace

std::string_view sniff_format(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes.first(std::min(bytes.size(), kSniffed)));
  if (text.empty()) return "empty";
  // First, because a length is any eight bytes: a header of 640 begins like a pickle (80 02), one
  // of 67,324,752 like a zip. Neither of the two has a '{' after a length within the limit.
  if (is_safetensors(bytes)) return "safetensors";
  for (const Signature& signature : kSignatures) {
    if (text.size() > signature.offset &&
        text.substr(signature.offset).starts_with(signature.bytes))
      return signature.format;
  }
  // Protocol 2 is what torch.save asks for by default; its callers may ask for up to 5.
  if (text.size() >= 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) return "torch_legacy";
  if (const std::string_view format = sniff_markup(text); !format.empty()) return format;
  if (is_onnx(text)) return "onnx";
  if (is_msgpack(text)) return "msgpack";
  constexpr std::size_t kManyZeros = 64;
  if (text.size() >= kManyZeros && text.find_first_not_of('\0') == text.npos) return "zeros";
  constexpr std::size_t kLongestCharacter = 3;  // bytes of a character that the cut may leave
  const bool is_text = std::ranges::all_of(text, is_printable) &&
                       find_bad_utf8(text) + kLongestCharacter >= text.size();
  return is_text ? "text" : "unknown";
}

void refuse_format(std::string_view format, std::span<const std::byte> bytes,
                   std::string_view expected, const std::string& subject) {
  if (format == "empty") {
    throw Error(ErrorCode::empty, "the file is empty", subject,
                "the file was cut off or damaged: download or copy it again");
  }
  const std::string_view begin = as_text(bytes.first(std::min(bytes.size(), kSniffed)));
  const std::string found = "expected " + std::string(expected) + ", found ";
  if (const auto known = std::ranges::find(kFormats, format, &ForeignFormat::name);
      known != kFormats.end()) {
    throw Error(ErrorCode::unsupported_format, found + std::string(known->what), subject,
                std::string(known->hint));
  }
  constexpr std::size_t kShown = 40;
  if (format == "text") {
    const std::string_view line =
        begin.substr(std::min(begin.find_first_not_of(" \r\n\t\f"), begin.size()));
    throw Error(ErrorCode::unsupported_format,
                found + "a text that begins with " +
                    quote(line.substr(0, std::min(line.find_first_of("\r\n"), kShown))),
                subject, "name the file of weights; if this should be it, download it again");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  for (const char c : begin.substr(0, 8)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += {' ', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
  }
  throw Error(
      ErrorCode::unsupported_format,
      found + "no known format: " + std::to_string(bytes.size()) + " bytes that begin with" + shown,
      subject, "the file is damaged, or numbers without a header");
}

}  // namespace hydrascope::checkpoint

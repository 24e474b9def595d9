#include "model/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "kernels/error.h"

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array kDtypes{
    DtypeRow{Dtype::BOOL, "BOOL", 1},       DtypeRow{Dtype::U8, "U8", 1},
    DtypeRow{Dtype::I8, "I8", 1},           DtypeRow{Dtype::I16, "I16", 2},
    DtypeRow{Dtype::U16, "U16", 2},         DtypeRow{Dtype::F16, "F16", 2},
    DtypeRow{Dtype::BF16, "BF16", 2},       DtypeRow{Dtype::I32, "I32", 4},
    DtypeRow{Dtype::U32, "U32", 4},         DtypeRow{Dtype::F32, "F32", 4},
    DtypeRow{Dtype::I64, "I64", 8},         DtypeRow{Dtype::U64, "U64", 8},
    DtypeRow{Dtype::F64, "F64", 8},         DtypeRow{Dtype::F8_E4M3, "F8_E4M3", 1},
    DtypeRow{Dtype::F8_E5M2, "F8_E5M2", 1}, DtypeRow{Dtype::F8_E8M0, "F8_E8M0", 1},
    DtypeRow{Dtype::C64, "C64", 8},
};

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kMostDimensions = 16;
constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void refuse(const std::string& what, const std::string& subject) {
  throw Error(ErrorCode::decode_failed, what, subject);
}

const DtypeRow& row_of(Dtype dtype) { return *std::ranges::find(kDtypes, dtype, &DtypeRow::dtype); }

/// One tensor's entry as the header spells it, not yet checked against the buffer.
struct Entry {
  std::string name;
  std::optional<Dtype> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;

  [[nodiscard]] std::uint64_t begin() const { return (*offsets)[0]; }
  [[nodiscard]] std::uint64_t end() const { return (*offsets)[1]; }
};

/// The header's grammar as a SAX handler: a DOM would keep the last of two equal keys without a word.
///   {"__metadata__": {string: string}, name: {"dtype": string, "shape": [n], "data_offsets": [n, n]}}
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(const std::string& subject) : subject_(subject) {}

  std::vector<Entry> entries;
  Metadata metadata;

  bool start_object(std::size_t) override {
    if (list_ != nullptr) refuse(place() + ": expected an integer, found an object", subject_);
    ++depth_;
    if (depth_ == 2) {
      fields_.clear();
      in_metadata_ = key_ == kMetadataKey;
      if (!in_metadata_) entries.push_back({key_, {}, {}, {}});
    } else if (depth_ > 2) {
      refuse(place() + ": nested deeper than the format allows", subject_);
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) {
      const Entry& entry = entries.back();
      for (const auto& [field, there] : {std::pair{"dtype", entry.dtype.has_value()},
                                         {"shape", entry.shape.has_value()},
                                         {"data_offsets", entry.offsets.has_value()}}) {
        if (!there) refuse("tensor '" + entry.name + "' has no " + field, subject_);
      }
    }
    --depth_;
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    std::set<std::string>& seen = depth_ == 1 ? names_ : fields_;
    if (!seen.insert(text).second) {
      refuse((depth_ == 1 ? std::string("header") : owner()) + ": duplicate key '" + text + "'", subject_);
    }
    if (depth_ == 2 && !in_metadata_ && text != "dtype" && text != "shape" && text != "data_offsets") {
      refuse(owner() + ": unknown field '" + text + "'", subject_);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_ && list_ == nullptr) {
      metadata[key_] = text;
      return true;
    }
    if (depth_ != 2 || in_metadata_ || key_ != "dtype") unexpected("a string");
    const auto row = std::ranges::find(kDtypes, std::string_view(text), &DtypeRow::name);
    if (row == kDtypes.end()) refuse(owner() + ": unknown dtype '" + text + "'", subject_);
    entries.back().dtype = row->dtype;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || key_ == "dtype") unexpected("an array");
    Entry& entry = entries.back();
    list_ = key_ == "shape" ? &entry.shape.emplace() : &entry.offsets.emplace();
    return true;
  }
  bool end_array() override {
    if (key_ == "data_offsets" && list_->size() != 2) {
      refuse(owner() + ": data_offsets: expected 2 numbers, found " + std::to_string(list_->size()), subject_);
    }
    list_ = nullptr;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) unexpected("a number");
    if (key_ == "shape" && list_->size() == kMostDimensions) {
      refuse(owner() + ": more than " + std::to_string(kMostDimensions) + " dimensions", subject_);
    }
    if (key_ == "data_offsets" && list_->size() == 2) refuse(owner() + ": data_offsets: expected 2 numbers, found more", subject_);
    list_->push_back(value);
    return true;
  }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a number that is no integer"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool null() override { unexpected("null"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("header is no JSON (byte " + std::to_string(position) + ")", subject_);
  }

 private:
  [[nodiscard]] std::string owner() const {
    return in_metadata_ ? std::string(kMetadataKey) : "tensor '" + entries.back().name + "'";
  }
  [[nodiscard]] std::string place() const { return depth_ >= 2 ? owner() + ": " + key_ : "header: " + key_; }
  [[noreturn]] void unexpected(const std::string& found) const {
    std::string expected = "an object";
    if (list_ != nullptr) {
      expected = "a non-negative integer";
    } else if (depth_ == 2) {
      expected = in_metadata_ || key_ == "dtype" ? "a string" : "an array of integers";
    }
    refuse(place() + ": expected " + expected + ", found " + found, subject_);
  }

  const std::string& subject_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

/// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return false;
    const auto second = static_cast<unsigned char>(text[i + 1]);
    const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (second < least || second > most) return false;
    for (std::size_t k = 2; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0U) != 0x80U) return false;
    }
    i += length;
  }
  return true;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t little_endian(std::span<const std::byte, 8> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

std::uint64_t byte_count(const Entry& entry, const std::string& subject) {
  std::uint64_t bytes = row_of(*entry.dtype).size;
  for (const std::uint64_t size : *entry.shape) {
    if (size > static_cast<std::uint64_t>(INT64_MAX) || __builtin_mul_overflow(bytes, size, &bytes)) {
      refuse("tensor '" + entry.name + "': its size overflows", subject);
    }
  }
  return bytes;
}

void refuse_other_formats(std::span<const std::byte> bytes, const std::string& subject) {
  const std::string_view format = sniff_format(bytes);
  const auto is = [&](const char* what, const char* hint) {
    throw Error(ErrorCode::unsupported_format, std::string("is ") + what + ", not a safetensors file", subject, hint);
  };
  if (format == "empty") refuse("is empty: expected at least 8 bytes", subject);
  if (format == "git_lfs_pointer") is("a Git LFS pointer", "fetch the file itself: git lfs pull");
  if (format == "html") is("an HTML page", "a failed download: fetch the file again");
  if (format == "torch_zip") is("a PyTorch zip file", "save it as safetensors");
  if (format == "torch_legacy") is("a PyTorch pickle", "save it as safetensors");
  if (format == "gguf") is("a GGUF file", "save it as safetensors");
}

}  // namespace

std::string_view name(Dtype dtype) { return row_of(dtype).name; }
std::size_t size_of(Dtype dtype) { return row_of(dtype).size; }

MappedFile::MappedFile(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::unreadable;
    throw Error(code, std::strerror(errno), file.string());
  }
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    throw Error(ErrorCode::unreadable, "is no regular file", file.string());
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      const std::string reason = std::strerror(errno);
      close(descriptor);
      throw Error(ErrorCode::unreadable, "cannot be mapped: " + reason, file.string());
    }
    bytes_ = {static_cast<const std::byte*>(data), size};
  }
  close(descriptor);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string_view sniff_format(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.empty()) return "empty";
  if (text.starts_with("version https://git-lfs")) return "git_lfs_pointer";
  if (text.starts_with("PK\x03\x04")) return "torch_zip";
  if (text.starts_with("\x80\x02")) return "torch_legacy";
  if (text.starts_with("GGUF")) return "gguf";
  std::string start(text.substr(0, 64));
  start.erase(0, start.find_first_not_of(" \t\r\n"));
  std::ranges::transform(start, start.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (start.starts_with("<!doctype") || start.starts_with("<html")) return "html";
  if (text.size() > 8 && text[8] == '{') return "safetensors";
  return "unknown";
}

SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& subject) {
  refuse_other_formats(bytes, subject);
  if (bytes.size() < 8) refuse("is too short: expected at least 8 bytes, found " + std::to_string(bytes.size()), subject);
  const std::uint64_t header_size = little_endian(bytes.first<8>());
  if (header_size > kMostHeaderBytes) {
    refuse("header length " + std::to_string(header_size) + " is above the limit of " + std::to_string(kMostHeaderBytes), subject);
  }
  if (header_size > bytes.size() - 8) {
    refuse("header length " + std::to_string(header_size) + " does not fit into a file of " + std::to_string(bytes.size()) + " bytes", subject);
  }
  const std::string_view header = text_of(bytes.subspan(8, header_size));
  if (!header.starts_with('{')) refuse("header does not begin with '{'", subject);
  if (!is_utf8(header)) refuse("header is not UTF-8", subject);
  HeaderHandler handler(subject);
  Json::sax_parse(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(header.find_last_not_of(' ') + 1), &handler);

  const std::span<const std::byte> buffer = bytes.subspan(8 + header_size);
  // Pointers are sorted: g++ 12 sees uninitialised members in moved optionals.
  std::vector<const Entry*> sorted;
  for (const Entry& entry : handler.entries) sorted.push_back(&entry);
  std::ranges::stable_sort(sorted, [](const Entry* a, const Entry* b) {
    return a->begin() != b->begin() ? a->begin() < b->begin() : a->end() < b->end();
  });
  SafetensorsIndex index;
  index.metadata = std::move(handler.metadata);
  std::uint64_t expected_begin = 0;
  for (const Entry* item : sorted) {
    const Entry& entry = *item;
    const std::uint64_t begin = entry.begin();
    const std::uint64_t end = entry.end();
    const std::string what = "tensor '" + entry.name + "': ";
    if (end < begin) refuse(what + "data_offsets end before they begin", subject);
    if (begin != expected_begin) {
      refuse(what + (begin < expected_begin ? "overlaps the tensor before it" : "leaves a hole before it") + ": expected offset " +
                 std::to_string(expected_begin) + ", found " + std::to_string(begin),
             subject);
    }
    const std::uint64_t size = byte_count(entry, subject);
    if (end - begin != size) {
      refuse(what + "shape and dtype need " + std::to_string(size) + " bytes, data_offsets hold " + std::to_string(end - begin), subject);
    }
    if (end > buffer.size()) {
      refuse(what + "ends at " + std::to_string(end) + " of a buffer of " + std::to_string(buffer.size()) + " bytes", subject);
    }
    TensorView view;
    view.name = entry.name;
    view.dtype = *entry.dtype;
    view.shape.assign(entry.shape->begin(), entry.shape->end());
    view.data = buffer.subspan(begin, size);
    index.tensors.push_back(std::move(view));
    expected_begin = end;
  }
  if (expected_begin != buffer.size()) {
    refuse("tensors end at " + std::to_string(expected_begin) + " of a buffer of " + std::to_string(buffer.size()) + " bytes", subject);
  }
  return index;
}

SafetensorsFile SafetensorsFile::open(const fs::path& file) {
  SafetensorsFile result;
  const auto add = [&](const fs::path& part) {
    auto mapped = std::make_shared<MappedFile>(part);
    SafetensorsIndex index = parse_safetensors(mapped->bytes(), part.string());
    for (auto& [key, value] : index.metadata) result.metadata_.emplace(key, value);
    result.files_.push_back(std::move(mapped));
    return std::move(index.tensors);
  };
  if (!file.string().ends_with(".index.json")) {
    result.tensors_ = add(file);
    return result;
  }
  const std::string subject = file.string();
  const MappedFile mapped(file);
  const Json json = Json::parse(text_of(mapped.bytes()), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json.at("weight_map").is_object()) {
    refuse("expected a JSON object with weight_map", subject);
  }
  std::map<std::string, std::set<std::string>> wanted;  // shard -> its tensors
  for (const auto& [tensor, shard] : json.at("weight_map").items()) {
    if (!shard.is_string()) refuse("weight_map: expected a file name for '" + tensor + "'", subject);
    const auto text = shard.get<std::string>();
    if (text.empty() || text == "." || text == ".." || text.find_first_of("/\\") != std::string::npos) {
      refuse("weight_map: '" + text + "' is no plain file name", subject);
    }
    wanted[text].insert(tensor);
  }
  for (auto& [shard, names] : wanted) {
    for (TensorView& view : add(file.parent_path() / shard)) {
      if (names.erase(view.name) == 0) refuse("tensor '" + view.name + "' of " + shard + " is not in weight_map", subject);
      result.tensors_.push_back(std::move(view));
    }
    if (!names.empty()) refuse("tensor '" + *names.begin() + "' is not in " + shard, subject);
  }
  return result;
}

const TensorView* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &TensorView::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace hydrascope::checkpoint

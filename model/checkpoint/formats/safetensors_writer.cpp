#include "kernels/error.h"
#include "kernels/input_file.h"
#include "kernels/new_file.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_write(const std::string& what, const fs::path& file) {
  throw Error(ErrorCode::invalid_argument, what, file.native());
}

[[noreturn]] void refuse_header(std::size_t bytes, const fs::path& file) {
  refuse_write("a header of at least " + std::to_string(bytes) +
                   " bytes, more than the format's limit of " + std::to_string(kMaxHeaderBytes),
               file);
}

void check_text(std::string_view text, const char* what, const fs::path& file) {
  if (find_bad_utf8(text) != text.size()) {
    refuse_write(std::string(what) + " " + quote(text) + " is not valid UTF-8", file);
  }
}

void check_tensor(const TensorView& tensor, const fs::path& file) {
  check_text(tensor.name, "the tensor name", file);
  const auto fail = [&](const std::string& what) {
    refuse_write("tensor " + quote(tensor.name) + ": " + what, file);
  };
  const auto type = [&] {
    return shape_text(tensor.shape) + " of " + std::string(name(tensor.dtype));
  };
  if (tensor.name == kMetadataKey) fail("the name is reserved");
  if (tensor.shape.size() > kMaxRank) {
    fail("more than " + std::to_string(kMaxRank) + " dimensions");
  }
  const std::optional<std::uint64_t> size = byte_size(tensor.shape, tensor.dtype);
  if (!size) fail("the size of " + type() + " is negative or overflows");
  if (*size != tensor.data.size()) {
    fail(type() + " takes " + std::to_string(*size) + " bytes, found " +
         std::to_string(tensor.data.size()));
  }
}

std::vector<const TensorView*> sorted(std::span<const TensorView> tensors, const fs::path& file) {
  std::vector<const TensorView*> order;
  order.reserve(tensors.size());
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  const auto name_of = [](const TensorView* tensor) -> const std::string& { return tensor->name; };
  std::ranges::sort(order, {}, name_of);
  const auto twin = std::ranges::adjacent_find(order, {}, name_of);
  if (twin != order.end()) refuse_write("two tensors have the name " + quote((*twin)->name), file);
  // In this order every tensor begins at a multiple of its element's size.
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const TensorView* tensor) { return size_of(tensor->dtype); });
  return order;
}

std::string written_header(std::span<const TensorView* const> order, const Metadata& metadata) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& json) {
    text += (text.empty() ? "{" : ",") + json_string(key) + ":" + json;
  };
  if (!metadata.empty()) {
    std::string entries;
    for (const auto& [key, value] : metadata) {
      entries += (entries.empty() ? "" : ",") + json_string(key) + ":" + json_string(value);
    }
    add(kMetadataKey, "{" + entries + "}");
  }
  std::uint64_t begin = 0;
  for (const TensorView* tensor : order) {
    std::string shape;
    for (const std::int64_t extent : tensor->shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    const std::uint64_t end = begin + tensor->data.size();
    add(tensor->name, "{\"dtype\":" + json_string(name(tensor->dtype)) + ",\"shape\":[" + shape +
                          "],\"data_offsets\":[" + std::to_string(begin) + "," +
                          std::to_string(end) + "]}");
    begin = end;
  }
  text += text.empty() ? "{}" : "}";
  constexpr std::size_t kAlignment = 8;
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const fs::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata, bool until_stopped) {
  if (std::max(tensors.size(), metadata.size()) >= kMaxJsonKeys) {
    refuse_write("more tensors or metadata than the format's readers take", file);
  }
  // Escapes only make text longer: a text that is too long already need not be escaped.
  std::size_t text_bytes = 0;
  for (const auto& [key, value] : metadata) text_bytes += key.size() + value.size();
  for (const TensorView& tensor : tensors) text_bytes += tensor.name.size();
  if (text_bytes > kMaxHeaderBytes) refuse_header(text_bytes, file);
  for (const auto& [key, value] : metadata) {
    check_text(key, "the metadata name", file);
    check_text(value, "the metadata", file);
  }
  for (const TensorView& tensor : tensors) check_tensor(tensor, file);
  const std::vector<const TensorView*> order = sorted(tensors, file);
  const std::string header = written_header(order, metadata);
  if (header.size() > kMaxHeaderBytes) refuse_header(header.size(), file);
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i) & 0xFF);
  }

  NewFile written(file);
  written.write(length);
  written.write(std::as_bytes(std::span(header)));
  for (const TensorView* tensor : order) {
    if (until_stopped) throw_if_stopped();
    written.write(tensor->data);
  }
  written.commit(/*sync_name=*/true);
}

}  // namespace hydrascope::checkpoint

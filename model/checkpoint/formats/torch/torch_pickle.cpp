#include "model/checkpoint/formats/torch/torch_pickle.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/safetensors_header.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_value.h"
#include "model/checkpoint/formats/torch/state_dict.h"
#include "model/checkpoint/formats/torch/torch_container.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using pickle::Value;

[[noreturn]] void refuse(const std::string& what, const std::string& subject,
                         std::string hint = {}) {
  throw Error(ErrorCode::unsupported_format, what, subject, std::move(hint));
}

/// Element (i, j, ...) of the tensor is element offset + i * strides[0] + j * strides[1] + ... of
/// the storage. All numbers are >= 0, there is a stride for every extent, and the tensor's size in
/// bytes fits into 63 bits (`byte_size`).
struct StridedView {
  Dtype dtype = Dtype::F32;
  std::int64_t offset = 0;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
};

constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max();

/// a * b + c without overflow of 63 bits.
std::optional<std::uint64_t> multiply_add(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  if (c > kMaxElements || (b != 0 && a > (kMaxElements - c) / b)) return std::nullopt;
  return a * b + c;
}

bool has_no_elements(const StridedView& view) { return std::ranges::count(view.shape, 0) > 0; }

std::size_t bytes_between(std::int64_t elements, std::size_t size) {
  return static_cast<std::size_t>(elements) * size;
}

/// `count` runs of `run` bytes each, `stride` bytes apart at the source.
struct Row {
  std::byte* target;
  const std::byte* source;
  std::size_t count;
  std::size_t stride;
  std::size_t run;
};

template <std::size_t kRun>
void copy_runs(const Row& row) {
  for (std::size_t i = 0; i < row.count; ++i) {
    std::memcpy(row.target + i * kRun, row.source + i * row.stride, kRun);
  }
}

void copy_row(const Row& row) {
  // Transposed matrices are copied element by element: a copy of constant length is a move.
  switch (row.run) {
    case 1: return copy_runs<1>(row);
    case 2: return copy_runs<2>(row);
    case 4: return copy_runs<4>(row);
    case 8: return copy_runs<8>(row);
    default: break;
  }
  for (std::size_t i = 0; i < row.count; ++i) {
    std::memcpy(row.target + i * row.run, row.source + i * row.stride, row.run);
  }
}

/// Bytes from the front of the storage to the end of the last element that the view touches; 0 for
/// a view without elements, nothing when the number overflows 63 bits.
std::optional<std::uint64_t> reach(const StridedView& view) {
  if (has_no_elements(view)) return 0;
  std::optional<std::uint64_t> last = static_cast<std::uint64_t>(view.offset);
  for (std::size_t i = 0; i < view.shape.size() && last; ++i) {
    last = multiply_add(static_cast<std::uint64_t>(view.shape[i] - 1),
                        static_cast<std::uint64_t>(view.strides[i]), *last);
  }
  const std::size_t size = size_of(view.dtype);
  return last ? multiply_add(*last, size, size) : std::nullopt;
}

/// Whether the elements lie one after the other in row-major order.
bool is_row_major(const StridedView& view) {
  if (has_no_elements(view)) return true;
  std::int64_t expected = 1;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 1) continue;  // its stride moves nothing
    if (view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

/// Copies all elements in row-major order. `storage` has at least `reach` bytes, `target` exactly
/// the tensor's size.
void copy_row_major(const StridedView& view, std::span<const std::byte> storage,
                    std::span<std::byte> target) {
  if (target.empty()) return;
  // The innermost dimensions that lie one after the other are copied at once, as a run.
  std::size_t outer = view.shape.size();
  std::size_t run = size_of(view.dtype);
  const std::size_t size = run;
  while (outer > 0 &&
         (view.shape[outer - 1] == 1 || bytes_between(view.strides[outer - 1], size) == run)) {
    run *= static_cast<std::size_t>(view.shape[--outer]);
  }
  // The next dimension is a row of runs. A single row may have any stride.
  const std::size_t count = outer > 0 ? static_cast<std::size_t>(view.shape[--outer]) : 1;
  const std::size_t stride = count > 1 ? bytes_between(view.strides[outer], size) : 0;

  std::vector<std::int64_t> position(outer, 0);
  const std::byte* source = storage.data() + bytes_between(view.offset, size);
  for (std::size_t written = 0; written < target.size(); written += count * run) {
    copy_row({.target = target.data() + written,
              .source = source,
              .count = count,
              .stride = stride,
              .run = run});
    for (std::size_t i = outer; i-- > 0;) {
      if (view.shape[i] == 1) continue;
      const std::size_t step = bytes_between(view.strides[i], size);
      if (++position[i] < view.shape[i]) {
        source += step;
        break;
      }
      source -= step * static_cast<std::size_t>(view.shape[i] - 1);
      position[i] = 0;
    }
  }
}

/// Makes row-major tensors out of views of storages.
class TensorReader {
 public:
  TensorReader(const TorchContents& contents, std::size_t file_size, const std::string& subject)
      : contents_(contents), subject_(subject) {
    constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();
    budget_ = file_size > (kMax - kMaxCopiedBytes) / kMaxCopiedFactor
                  ? kMax
                  : kMaxCopiedBytes + kMaxCopiedFactor * file_size;
  }

  TensorView read(std::string name, const pickle::Tensor& tensor) {
    const auto place = [&] { return "tensor " + quote(name) + ": "; };
    if (!tensor.dtype || !tensor.storage->dtype) {
      refuse(place() + "its dtype " + quote(tensor.type) +
                 " is not read (a complex, a quantized or a rare one)",
             subject_);
    }
    if (tensor.is_marked) {
      refuse(place() + "it is a negated or conjugated view", subject_,
             "call resolve_neg() and resolve_conj() before torch.save");
    }
    const StridedView view{.dtype = *tensor.dtype,
                           .offset = tensor.offset,
                           .shape = tensor.shape,
                           .strides = tensor.strides};
    const auto size = byte_size(view.shape, view.dtype);
    const auto end = reach(view);
    if (!size || !end) fail(place() + "the size of " + shape_text(view.shape) + " overflows");
    TensorView result{
        .name = std::move(name), .dtype = view.dtype, .shape = tensor.shape, .data = {}};
    if (*size == 0) return result;
    const auto storage = find_storage(*tensor.storage, result.name);
    if (*end > storage.size()) {
      fail("tensor " + quote(result.name) + ": the view " + shape_text(view.shape) +
           " with strides " + shape_text(view.strides) + " ends at byte " + std::to_string(*end) +
           " of a storage of " + std::to_string(storage.size()));
    }
    result.data = is_row_major(view)
                      ? storage.subspan(static_cast<std::size_t>(view.offset) * size_of(view.dtype),
                                        static_cast<std::size_t>(*size))
                      : copy(view, storage, static_cast<std::size_t>(*size), result.name);
    return result;
  }

  /// The memory of the copied tensors.
  std::vector<std::shared_ptr<const void>> take_owners() { return std::move(owners_); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::decode_failed, what, subject_,
                "the file is damaged: download or copy it again");
  }

  [[nodiscard]] std::span<const std::byte> find_storage(const pickle::Storage& storage,
                                                        const std::string& tensor) const {
    const auto refuse_storage = [&](const std::string& what) {
      fail("tensor " + quote(tensor) + ": its storage " + quote(storage.key) + " " + what);
    };
    const auto found = contents_.storages.find(storage.key);
    if (found == contents_.storages.end()) refuse_storage("is missing");
    const std::span<const std::byte> bytes = found->second;
    const std::size_t size = size_of(*storage.dtype);
    const auto length = static_cast<std::uint64_t>(storage.length);
    if (length > bytes.size() / size) {
      refuse_storage("has " + std::to_string(bytes.size()) + " bytes, too few for " +
                     std::to_string(length) + " elements of " + std::string(name(*storage.dtype)));
    }
    const auto offset = static_cast<std::uint64_t>(storage.view_offset);
    if (offset > length) refuse_storage("is viewed beyond its end");
    const std::uint64_t rest = length - offset;
    const auto view_length =
        static_cast<std::uint64_t>(storage.view_length.value_or(static_cast<std::int64_t>(rest)));
    if (view_length > rest) refuse_storage("is viewed beyond its end");
    return bytes.subspan(static_cast<std::size_t>(offset) * size,
                         static_cast<std::size_t>(view_length) * size);
  }

  std::span<const std::byte> copy(const StridedView& view, std::span<const std::byte> storage,
                                  std::size_t size, const std::string& tensor) {
    if (size > budget_) {
      fail("tensor " + quote(tensor) + " expands to " + shape_text(view.shape) + " with strides " +
           shape_text(view.strides) + ", too much for a file of this size");
    }
    budget_ -= size;
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(size);
    copy_row_major(view, storage, {memory.get(), size});
    owners_.push_back(memory);
    return {memory.get(), size};
  }

  const TorchContents& contents_;
  const std::string& subject_;
  std::size_t budget_;  ///< bytes that copies may still take
  std::vector<std::shared_ptr<const void>> owners_;
};

/// Tensors in the order of the dict; other values are skipped.
std::vector<TensorView> read_tensors(const pickle::Dict& dict, TensorReader& reader,
                                     const std::string& subject) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::decode_failed, what, subject);
  };
  std::vector<TensorView> tensors;
  std::set<std::string_view> names;
  for (const auto& [key, value] : dict.items) {
    const auto* tensor = std::get_if<pickle::Tensor*>(&value);
    if (tensor == nullptr) continue;
    const auto* name = std::get_if<pickle::Text>(&key);
    if (name == nullptr) {
      fail("the name of a tensor is " + std::string(pickle::describe(key)) + ", expected text");
    }
    if (find_bad_utf8(name->text) != name->text.size()) {
      fail("the name of a tensor is not UTF-8: " + quote(name->text));
    }
    if (!names.insert(name->text).second) fail("two tensors are named " + quote(name->text));
    tensors.push_back(reader.read(std::string(name->text), **tensor));
  }
  return tensors;
}

/// "torch_zip" or "torch_legacy".
std::string find_format(std::span<const std::byte> bytes, const std::string& subject) {
  const std::string_view format = sniff_format(bytes);
  if (format == "torch_zip" || format == "torch_legacy") return std::string(format);
  refuse_format(format, bytes, "a file of torch.save", subject);
}

constexpr std::size_t kMaxEntries = 1024;
constexpr std::size_t kMaxText = 4096;
constexpr std::string_view kArguments = "args";
constexpr std::string_view kModelArguments = "model_kwargs";  // of timm's train.py

std::optional<std::string> plain_text(std::string_view text) {
  if (text.size() > kMaxText || find_bad_utf8(text) != text.size()) return std::nullopt;
  return std::string(text);
}

std::optional<std::string> value_text(const pickle::Value& value) {
  if (const auto* text = std::get_if<pickle::Text>(&value)) return plain_text(text->text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return std::nullopt;
  return shortest_number(*number);
}

void add_plain_values(const pickle::Dict& dict, const std::string& prefix, Metadata& metadata) {
  for (const auto& [key, value] : dict.items) {
    if (metadata.size() >= kMaxEntries) return;
    const auto* name = std::get_if<pickle::Text>(&key);
    const auto plain_name = name == nullptr ? std::nullopt : plain_text(name->text);
    const auto text = value_text(value);
    if (plain_name && text) metadata.try_emplace(prefix + *plain_name, *text);
  }
}

/// The text, numbers and booleans ("true") of `root`, and of its entry `args` (a namespace or a
/// dict) as "args.NAME", of its `model_kwargs` as "args.model_kwargs.NAME". Left out: everything
/// else, names and text that are not UTF-8 or longer than 4096 bytes, and all after the first 1024
/// entries.
Metadata read_metadata(const pickle::Dict& root) {
  Metadata metadata;
  add_plain_values(root, "", metadata);
  if (const pickle::Value* arguments = find(root, kArguments)) {
    const pickle::Dict* fields = nullptr;
    if (const auto* dict = std::get_if<pickle::Dict*>(arguments)) fields = *dict;
    if (const auto* name_space = std::get_if<pickle::Namespace*>(arguments)) {
      fields = (*name_space)->fields;
    }
    if (fields == nullptr) return metadata;
    const std::string prefix = std::string(kArguments) + '.';
    add_plain_values(*fields, prefix, metadata);
    const pickle::Value* of_model = find(*fields, kModelArguments);
    if (const auto* dict = of_model == nullptr ? nullptr : std::get_if<pickle::Dict*>(of_model))
      add_plain_values(**dict, prefix + std::string(kModelArguments) + '.', metadata);
  }
  return metadata;
}

}  // namespace

TorchPickleFile TorchPickleFile::parse(std::span<const std::byte> bytes, const std::string& subject,
                                       const TorchPickleOptions& options) {
  TorchPickleFile file;
  file.format_ = find_format(bytes, subject);
  pickle::Heap heap(bytes.size(), subject);
  const TorchContents contents =
      file.format_ == "torch_zip" ? read_torch_zip(bytes, heap) : read_torch_legacy(bytes, heap);
  StateDict found = options.use_ema ? find_averaged_dict(contents.root, heap)
                                    : find_state_dict(contents.root, heap);
  if (found.dict == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the file has no averaged weights (state_dict_ema, model_ema)", subject);
  }
  const pickle::Dict& root = *std::get<pickle::Dict*>(contents.root);
  file.entry_ = std::move(found.entry);
  file.has_ema_ = !options.use_ema && has_averaged_dict(root);
  file.metadata_ = read_metadata(root);
  file.note_ = note_of_unknown(heap);
  TensorReader reader(contents, bytes.size(), subject);
  file.tensors_ = read_tensors(*found.dict, reader, subject);
  file.owners_ = reader.take_owners();
  return file;
}

TorchPickleFile TorchPickleFile::open(const std::filesystem::path& file,
                                      const TorchPickleOptions& options) {
  auto mapped = std::make_shared<MappedFile>(file);
  TorchPickleFile result = parse(mapped->bytes(), file.native(), options);
  result.owners_.push_back(std::move(mapped));
  return result;
}

}  // namespace hydrascope::checkpoint

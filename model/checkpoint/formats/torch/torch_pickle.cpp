#include "model/checkpoint/formats/torch/torch_pickle.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_globals.h"
#include "model/checkpoint/formats/torch/pickle_value.h"
#include "model/checkpoint/formats/torch/torch_container.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {
namespace {

using pickle::Value;

/// A dict of tensors, and the name under which it was found: "" for the root itself.
struct StateDict {
  std::string entry;
  const pickle::Dict* dict = nullptr;
};

constexpr std::array<std::string_view, 2> kAveragedEntries{"state_dict_ema", "model_ema"};
constexpr std::array<std::string_view, 5> kEntries{"state_dict", "model", "module",
                                                   "model_state_dict", "model_state"};
constexpr std::size_t kShownKeys = 8;
constexpr std::size_t kShownNames = 4;
constexpr std::size_t kMostEntries = 64;
constexpr const char* kMakeTensors =
    "nothing of the file was executed; in Python, make plain tensors of the values (of arrays by "
    "torch.from_numpy) before torch.save";
constexpr const char* kSaveStateDict =
    "in Python, save its state_dict: torch.save(model.state_dict(), \"weights.pth\")";

[[noreturn]] void refuse_dict(const std::string& what, const pickle::Heap& heap,
                              const char* hint = kSaveStateDict) {
  throw Error(ErrorCode::unsupported_format, what, heap.subject(), hint);
}

/// The maker of `object`: a class, or a function of unknown code.
std::string maker_name(const pickle::Object& object) {
  constexpr int kMostCalls = 8;  // a pickle may chain a million calls of results
  const Value* maker = &object.maker;
  for (int i = 0; i < kMostCalls && std::holds_alternative<pickle::Object*>(*maker); ++i)
    maker = &std::get<pickle::Object*>(*maker)->maker;
  if (const auto* foreign = std::get_if<pickle::Foreign*>(maker)) return python_name(**foreign);
  const auto* global = std::get_if<const pickle::Global*>(maker);
  return global == nullptr ? std::string(describe(*maker)) : std::string((*global)->name);
}

/// Walks the values inside a value, without recursion and each of them once.
class Walk {
 public:
  /// Whether a tensor or a storage lies in `value`, outside the values of earlier calls.
  bool reaches_tensor(const Value& value) {
    std::vector<Value> open{value};
    while (!open.empty()) {
      const Value next = open.back();
      open.pop_back();
      if (std::holds_alternative<pickle::Tensor*>(next) ||
          std::holds_alternative<pickle::Storage*>(next)) {
        return true;
      }
      if (const auto* tuple = std::get_if<pickle::Tuple*>(&next))
        add((*tuple)->items, *tuple, open);
      if (const auto* list = std::get_if<pickle::List*>(&next)) add((*list)->items, *list, open);
      if (const auto* object = std::get_if<pickle::Object*>(&next)) {
        add((*object)->parts, *object, open);
      }
      const auto* name_space = std::get_if<pickle::Namespace*>(&next);
      const auto* dict = std::get_if<pickle::Dict*>(&next);
      const pickle::Dict* fields = dict != nullptr         ? *dict
                                   : name_space != nullptr ? (*name_space)->fields
                                                           : nullptr;
      if (fields == nullptr || !seen_.insert(fields).second) continue;
      for (const auto& [key, item] : fields->items) open.push_back(item);
    }
    return false;
  }

 private:
  void add(const std::vector<Value>& items, const void* owner, std::vector<Value>& open) {
    if (seen_.insert(owner).second) open.insert(open.end(), items.begin(), items.end());
  }
  std::set<const void*> seen_;
};

/// Attributes that every torch.nn.Module keeps, whatever its class.
bool is_module(const pickle::Object& object) {
  if (object.parts.empty()) return false;
  const auto* state = std::get_if<pickle::Dict*>(&object.parts.back());
  return state != nullptr && find(**state, "_modules") != nullptr &&
         find(**state, "_parameters") != nullptr;
}

/// NumPy's arrays hold numbers that nobody reads.
bool is_array(const pickle::Object& object) {
  const std::string name = maker_name(object);
  return name.starts_with("numpy.") &&
         (name.ends_with("._reconstruct") || name.ends_with("._frombuffer"));
}

std::string what_it_is(const pickle::Object& object) {
  if (is_module(object)) return "a whole pickled module of the class " + maker_name(object);
  if (is_array(object)) return "an array of NumPy";
  return "made by " + maker_name(object) + ", which hydrascope does not know";
}

const pickle::Dict* as_state_dict(const Value& value) {
  const auto* dict = std::get_if<pickle::Dict*>(&value);
  if (dict == nullptr) return nullptr;
  const bool has_tensors = std::ranges::any_of((*dict)->items, [](const auto& item) {
    return std::holds_alternative<pickle::Tensor*>(item.second);
  });
  return has_tensors ? *dict : nullptr;
}

/// The first of `entries` that holds tensors.
StateDict find_entry(const pickle::Dict& root, std::span<const std::string_view> entries,
                     const pickle::Heap& heap) {
  for (const std::string_view entry : entries) {
    const Value* value = find(root, entry);
    if (value == nullptr) continue;
    if (const pickle::Dict* dict = as_state_dict(*value)) return {std::string(entry), dict};
    const auto* object = std::get_if<pickle::Object*>(value);
    if (object != nullptr && Walk().reaches_tensor(*value))
      refuse_dict("\"" + std::string(entry) + "\" of the file is " + what_it_is(**object), heap);
  }
  return {};
}

/// The entries that hold tensors, whatever they are called.
StateDict find_only_entry(const pickle::Dict& root, const pickle::Heap& heap) {
  std::vector<StateDict> found;
  std::string names;
  std::set<const pickle::Dict*> seen;  // a pickle may repeat a dict at no cost
  for (const auto& [key, value] : root.items) {
    const auto* name = std::get_if<pickle::Text>(&key);
    const auto* inner = std::get_if<pickle::Dict*>(&value);
    if (name == nullptr || inner == nullptr || !seen.insert(*inner).second) continue;
    const pickle::Dict* dict = as_state_dict(value);
    if (dict == nullptr || find_bad_utf8(name->text) != name->text.size()) continue;
    if (found.size() < kShownKeys) names += (found.empty() ? "" : ", ") + quote(name->text);
    found.push_back({std::string(name->text), dict});
  }
  if (found.empty()) return {};
  if (found.size() > 1) {
    refuse_dict(std::to_string(found.size()) + " entries of the file hold tensors (" + names +
                    (found.size() > kShownKeys ? ", ..." : "") + "), and none is the state dict",
                heap, "in Python, save one of them alone: torch.save(file[NAME], \"weights.pth\")");
  }
  return found.front();
}

std::string list_keys(const pickle::Dict& dict) {
  std::string text;
  for (std::size_t i = 0; i < std::min(dict.items.size(), kShownKeys); ++i) {
    const auto* key = std::get_if<pickle::Text>(&dict.items[i].first);
    text +=
        (i == 0 ? "" : ", ") +
        (key != nullptr ? quote(key->text) : std::string(pickle::describe(dict.items[i].first)));
  }
  if (dict.items.size() > kShownKeys) {
    text += " and " + std::to_string(dict.items.size() - kShownKeys) + " more";
  }
  return text;
}

/// "blocks." of "blocks.0.norm1.weight"; the whole name where it has no dot.
std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.') + 1); }

/// Refuses a dict with values of unknown code in the place of tensors, or with other values under
/// names of parts that have tensors. A None counts as absent.
StateDict checked(StateDict found, const pickle::Heap& heap) {
  constexpr std::array<std::string_view, 4> kTokens{"cls_token", "dist_token", "reg_token",
                                                    "pos_embed"};
  Walk walk;
  std::set<std::string_view> parts;
  for (const auto& [key, value] : found.dict->items) {
    const auto* name = std::get_if<pickle::Text>(&key);
    if (name != nullptr && std::holds_alternative<pickle::Tensor*>(value))
      parts.insert(first_part(name->text));
  }
  for (const auto& [key, value] : found.dict->items) {
    if (std::holds_alternative<pickle::Tensor*>(value) ||
        std::holds_alternative<pickle::None>(value))
      continue;
    const auto* name = std::get_if<pickle::Text>(&key);
    const std::string_view text = name == nullptr ? "" : name->text;
    const bool is_of_part =
        !parts.empty() && (std::ranges::find(kTokens, text) != kTokens.end() ||
                           (!first_part(text).empty() && parts.contains(first_part(text))));
    const auto* object = std::get_if<pickle::Object*>(&value);
    if (object != nullptr && (is_of_part || is_array(**object) || walk.reaches_tensor(value))) {
      refuse_dict("the tensor " + (name == nullptr ? "" : quote(text) + " ") +
                      "of the weights is " + what_it_is(**object),
                  heap, kMakeTensors);
    }
    if (object == nullptr && is_of_part) {
      refuse_dict("the tensor " + quote(text) + " of the weights is " +
                      std::string(pickle::describe(value)),
                  heap, kMakeTensors);
    }
  }
  return found;
}

const pickle::Dict& root_dict(const Value& root, const pickle::Heap& heap) {
  if (const auto* dict = std::get_if<pickle::Dict*>(&root)) return **dict;
  if (const auto* object = std::get_if<pickle::Object*>(&root)) {
    refuse_dict(is_module(**object)
                    ? "the file is " + what_it_is(**object)
                    : "expected a state dict, found an object of the class " + maker_name(**object),
                heap);
  }
  refuse_dict("expected a state dict, found " + std::string(pickle::describe(root)), heap);
}

/// The first of "state_dict", "model", "module", "model_state_dict" and "model_state" that holds
/// tensors, else the root itself, else the only entry that does. Throws Error(unsupported_format)
/// if there is none or more than one, for a whole module, and for a tensor of the dict that depends
/// on unknown code.
StateDict find_state_dict(const Value& root, const pickle::Heap& heap) {
  const pickle::Dict& dict = root_dict(root, heap);
  StateDict found = find_entry(dict, kEntries, heap);
  if (found.dict == nullptr && as_state_dict(root) != nullptr) found.dict = &dict;
  if (found.dict == nullptr) found = find_only_entry(dict, heap);
  if (found.dict != nullptr) return checked(std::move(found), heap);
  // No dict: names the value in its place, if the entries are not too many.
  for (std::size_t i = 0; i < std::min(dict.items.size(), kMostEntries); ++i) {
    const auto& [key, value] = dict.items[i];
    const auto* object = std::get_if<pickle::Object*>(&value);
    const auto* name = std::get_if<pickle::Text>(&key);
    if (object != nullptr && name != nullptr && (is_array(**object) || is_module(**object))) {
      refuse_dict(quote(name->text) + " of the file is " + what_it_is(**object) +
                      ", and no entry is a state dict",
                  heap, is_array(**object) ? kMakeTensors : kSaveStateDict);
    }
    if (const auto* inner = std::get_if<pickle::Dict*>(&value)) checked({"", *inner}, heap);
  }
  refuse_dict(
      "the file holds no tensors where a state dict is expected: in the file itself, "
      "\"state_dict\", \"model\" or \"module\"; found " +
          (dict.items.empty() ? "nothing" : "the keys " + list_keys(dict)),
      heap);
}

/// "state_dict_ema" or "model_ema"; a null dict without one. Throws as `find_state_dict` does for a
/// tensor that depends on unknown code.
StateDict find_averaged_dict(const Value& root, const pickle::Heap& heap) {
  StateDict found = find_entry(root_dict(root, heap), kAveragedEntries, heap);
  return found.dict == nullptr ? found : checked(std::move(found), heap);
}

bool has_averaged_dict(const pickle::Dict& root) {
  return std::ranges::any_of(kAveragedEntries, [&](std::string_view entry) {
    const Value* value = find(root, entry);
    return value != nullptr && as_state_dict(*value) != nullptr;
  });
}

/// A note on the values that only unknown code could make: their number and the code's name; ""
/// without such values.
std::string note_of_unknown(const pickle::Heap& heap) {
  const auto& objects = heap.all<pickle::Object>();
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (names.size() <= kShownNames && std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  };
  std::size_t count = objects.size();
  for (const pickle::Object& object : objects) add(maker_name(object));
  if (objects.empty()) {
    for (const pickle::Foreign& foreign : heap.all<pickle::Foreign>()) {
      if (foreign.is_called) continue;
      ++count;
      add(python_name(foreign));
    }
  }
  if (count == 0) return "";
  std::string text = std::to_string(count) + (count == 1 ? " value" : " values") +
                     " beside the weights cannot be read without running code and " +
                     (count == 1 ? "is" : "are") + " left out: ";
  for (std::size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShownNames ? ", ..." : "");
}

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

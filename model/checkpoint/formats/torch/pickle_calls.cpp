#include "model/checkpoint/formats/torch/pickle_calls.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/torch/pickle_globals.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace hydrascope::checkpoint::pickle {
namespace {

/// The arguments of one call, checked as they are taken.
class Arguments {
 public:
  Arguments(std::string_view function, const Tuple& tuple, const Heap& heap)
      : function_(function), items_(tuple.items), heap_(heap) {}

  [[nodiscard]] std::size_t count() const { return items_.size(); }

  void expect_count(std::size_t least, std::size_t most) const {
    if (count() >= least && count() <= most) return;
    heap_.fail(std::string(function_) + ": found " + std::to_string(count()) +
               " arguments, expected " + std::to_string(least) +
               (least == most ? "" : " to " + std::to_string(most)));
  }

  [[nodiscard]] const Value& value(std::size_t i) const {
    expect_count(i + 1, std::max(i + 1, count()));
    return items_[i];
  }

  template <class T>
  [[nodiscard]] const T& get(std::size_t i, std::string_view expected) const {
    const auto* found = std::get_if<T>(&value(i));
    if (found == nullptr) refuse(i, expected);
    return *found;
  }

  /// The name of a dtype or of a storage's type, and the dtype if it is one of ours.
  [[nodiscard]] std::pair<std::string_view, std::optional<Dtype>> type(
      std::size_t i, Role role, std::string_view expected) const {
    if (const auto* foreign = std::get_if<Foreign*>(&value(i));
        foreign != nullptr && (*foreign)->module == "torch") {
      return {(*foreign)->name, std::nullopt};
    }
    const Global& found = *get<const Global*>(i, expected);
    if (found.role != role) refuse(i, expected);
    return {found.name, found.dtype};
  }

  [[nodiscard]] std::int64_t not_negative(std::size_t i) const {
    const auto number = get<std::int64_t>(i, "an integer");
    if (number < 0) refuse(i, "an integer that is not negative");
    return number;
  }

  [[nodiscard]] std::vector<std::int64_t> extents(std::size_t i) const {
    const Tuple& tuple = *get<Tuple*>(i, "a tuple of integers");
    if (tuple.items.size() > kMaxRank) refuse(i, "at most " + std::to_string(kMaxRank) + " items");
    std::vector<std::int64_t> numbers;
    numbers.reserve(tuple.items.size());
    for (const Value& item : tuple.items) {
      const auto* number = std::get_if<std::int64_t>(&item);
      if (number == nullptr || *number < 0) refuse(i, "a tuple of integers >= 0");
      numbers.push_back(*number);
    }
    return numbers;
  }

  [[noreturn]] void refuse(std::size_t i, std::string_view expected) const {
    heap_.fail(std::string(function_) + ": argument " + std::to_string(i) + " is " +
               std::string(describe(items_[i])) + ", expected " + std::string(expected));
  }

 private:
  std::string_view function_;
  const std::vector<Value>& items_;
  const Heap& heap_;
};

/// OrderedDict(), OrderedDict(dict), or Python 2's OrderedDict([[key, value], ...]).
Value make_dict(const Arguments& arguments, Heap& heap) {
  arguments.expect_count(0, 1);
  if (arguments.count() == 0) return heap.make(Dict{});
  if (const auto* dict = std::get_if<Dict*>(&arguments.value(0))) return *dict;
  const std::vector<Value>& pairs = arguments.get<List*>(0, "a dict or a list of pairs")->items;
  Dict dict;
  heap.spend(pairs.size() * sizeof(dict.items[0]));
  dict.items.reserve(pairs.size());
  for (const Value& pair : pairs) {
    const auto* list = std::get_if<List*>(&pair);
    const auto* tuple = std::get_if<Tuple*>(&pair);
    if (list == nullptr && tuple == nullptr) arguments.refuse(0, "a list of pairs");
    const std::vector<Value>& items = list != nullptr ? (*list)->items : (*tuple)->items;
    if (items.size() != 2) arguments.refuse(0, "a list of pairs");
    dict.items.emplace_back(items[0], items[1]);
  }
  return heap.make(std::move(dict));
}

/// Python 3's form of bytes in protocol 2: _codecs.encode(text, 'latin1').
Value encode(const Arguments& arguments, Heap& heap) {
  arguments.expect_count(2, 2);
  const std::string_view text = arguments.get<Text>(0, "text").text;
  const std::string_view codec = arguments.get<Text>(1, "text").text;
  if (codec != "latin1" && codec != "latin-1") arguments.refuse(1, "'latin1'");
  heap.spend(text.size());
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      bytes.push_back(text[i]);
      continue;
    }
    const bool is_pair = (first == 0xC2 || first == 0xC3) && i + 1 < text.size() &&
                         (static_cast<unsigned char>(text[i + 1]) & 0xC0) == 0x80;
    if (!is_pair) arguments.refuse(0, "characters of Latin-1");
    const auto second = static_cast<unsigned char>(text[++i]);
    bytes.push_back(static_cast<char>((first & 0x03) << 6 | (second & 0x3F)));
  }
  return Bytes{*heap.make(std::move(bytes))};
}

/// _rebuild_tensor(storage, offset, size, stride), v2 with (requires_grad, hooks[, metadata]), v3
/// with (requires_grad, hooks, dtype[, metadata]).
Value make_tensor(const Arguments& arguments, bool has_dtype, Heap& heap) {
  arguments.expect_count(has_dtype ? 7 : 4, has_dtype ? 8 : 7);
  Tensor tensor;
  tensor.storage = arguments.get<Storage*>(0, "a storage");
  std::tie(tensor.type, tensor.dtype) =
      has_dtype ? arguments.type(6, Role::dtype, "a dtype")
                : std::pair(tensor.storage->type, tensor.storage->dtype);
  tensor.offset = arguments.not_negative(1);
  tensor.shape = arguments.extents(2);
  tensor.strides = arguments.extents(3);
  if (tensor.shape.size() != tensor.strides.size()) {
    arguments.refuse(3, std::to_string(tensor.shape.size()) + " strides, as many as extents");
  }
  const std::size_t metadata = has_dtype ? 7 : 6;
  if (arguments.count() > metadata) {
    const auto* marks = std::get_if<Dict*>(&arguments.value(metadata));
    tensor.is_marked = marks != nullptr && !(*marks)->items.empty();
  }
  return heap.make(std::move(tensor));
}

bool is_object(const Value& value) { return std::holds_alternative<Object*>(value); }

/// _rebuild_from_type_v2(function, type, arguments, state): a tensor with attributes, of
/// torch.Tensor or of a class of its own.
Value make_typed_tensor(const Arguments& arguments, Tuple* tuple, Heap& heap) {
  arguments.expect_count(4, 4);
  const auto* function = std::get_if<const Global*>(&arguments.value(0));
  const auto* type = std::get_if<Foreign*>(&arguments.value(1));
  const bool is_plain = type != nullptr && (*type)->module == "torch" && (*type)->name == "Tensor";
  // Never a call of itself, which would let the pickle choose this function's depth.
  if (!is_plain || function == nullptr || (*function)->role == Role::typed_tensor) {
    return heap.make(Object{arguments.value(1), {tuple}});
  }
  (*type)->is_called = true;
  return call(*function, arguments.get<Tuple*>(2, "a tuple"), heap);
}

Value apply(const Global& function, Tuple* tuple, Heap& heap) {
  const Arguments arguments(function.name, *tuple, heap);
  const bool takes_anything = function.role == Role::opaque || function.role == Role::typed_tensor;
  // A subclass of tensors or a class of dicts: a value made of an unknown value is unknown.
  if (!takes_anything && std::ranges::any_of(tuple->items, is_object)) {
    return heap.make(Object{&function, {tuple}});
  }
  switch (function.role) {
    case Role::dict: return make_dict(arguments, heap);
    case Role::default_dict: return arguments.expect_count(0, 1), heap.make(Dict{});
    case Role::name_space: return arguments.expect_count(0, 0), heap.make(Namespace{});
    case Role::torch_size: return arguments.get<Tuple*>(0, "a tuple");
    case Role::opaque: return Opaque{};
    case Role::byte_string: return arguments.expect_count(0, 0), Bytes{};
    case Role::encode: return encode(arguments, heap);
    case Role::tensor: return make_tensor(arguments, false, heap);
    case Role::tensor_v3: return make_tensor(arguments, true, heap);
    case Role::typed_tensor: return make_typed_tensor(arguments, tuple, heap);
    case Role::parameter: return arguments.get<Tensor*>(0, "a tensor");
    case Role::storage_type:
    case Role::dtype: break;
  }
  heap.fail(std::string(function.name) + " is called, expected it as an argument only");
}

/// The object of a name outside the allow-list. `getattr` may name a method, as pickles do for
/// classes and values, or the `__new__` of a class, but nothing that runs code.
Value make_object(Foreign& function, Tuple* arguments, Heap& heap) {
  const std::vector<Value>& items = arguments->items;
  if (function.risk == Risk::attribute) {
    const auto* member = items.size() == 2 ? std::get_if<Text>(&items[1]) : nullptr;
    if (member == nullptr || (member->text.starts_with("__") && member->text != "__new__") ||
        risk_of("", member->text) != Risk::unknown) {
      refuse_call(function, heap.subject());
    }
  }
  function.is_called = true;
  const bool names_its_class = (function.module == "copyreg" || function.module == "copy_reg") &&
                               !items.empty() && std::holds_alternative<Foreign*>(items[0]);
  if (names_its_class) std::get<Foreign*>(items[0])->is_called = true;
  return heap.make(Object{names_its_class ? items[0] : Value(&function), {arguments}});
}

[[noreturn]] void fail_uncallable(const Value& value, const Heap& heap) {
  heap.fail("the pickle calls " + std::string(describe(value)));
}

Value load_storage(const Arguments& id, Heap& heap) {
  id.expect_count(5, 6);
  Storage storage;
  std::tie(storage.type, storage.dtype) = id.type(1, Role::storage_type, "a storage type");
  storage.key = id.get<Text>(2, "text").text;
  storage.length = id.not_negative(4);
  if (id.count() == 6 && !std::holds_alternative<None>(id.value(5))) {
    const Arguments view("the view of a storage", *id.get<Tuple*>(5, "None or a tuple"), heap);
    view.expect_count(3, 3);
    storage.view_offset = view.not_negative(1);
    storage.view_length = view.not_negative(2);
  }
  return heap.make(storage);
}

}  // namespace

Value call(const Value& callable, Tuple* arguments, Heap& heap, Dict* keywords) {
  Value made;
  if (const auto* foreign = std::get_if<Foreign*>(&callable)) {
    if ((*foreign)->risk == Risk::dangerous) refuse_call(**foreign, heap.subject());
    made = make_object(**foreign, arguments, heap);
  } else if (is_object(callable)) {
    made = heap.make(Object{callable, {arguments}});
  } else if (const auto* global = std::get_if<const Global*>(&callable)) {
    if (keywords != nullptr && !keywords->items.empty()) {
      heap.fail(std::string((*global)->name) + ": found keyword arguments");
    }
    return apply(**global, arguments, heap);
  } else {
    fail_uncallable(callable, heap);
  }
  if (keywords != nullptr) std::get<Object*>(made)->parts.emplace_back(keywords);
  return made;
}

void set_state(const Value& object, const Value& state, const Heap& heap) {
  // Attributes of an OrderedDict: state dicts carry versions of their modules in `_metadata`.
  if (std::holds_alternative<Dict*>(object) || std::holds_alternative<Opaque>(object)) return;
  if (const auto* unknown = std::get_if<Object*>(&object)) {
    (*unknown)->parts.push_back(state);
    return;
  }
  if (const auto* name_space = std::get_if<Namespace*>(&object)) {
    const auto* fields = std::get_if<Dict*>(&state);
    if (fields == nullptr) {
      heap.fail("the state of a namespace is " + std::string(describe(state)) +
                ", expected a dict");
    }
    (*name_space)->fields = *fields;
    return;
  }
  heap.fail("the pickle sets the state of " + std::string(describe(object)));
}

Value load_persistent(const Value& id, Heap& heap) {
  const auto* tuple = std::get_if<Tuple*>(&id);
  if (tuple == nullptr) {
    heap.fail("the persistent id is " + std::string(describe(id)) + ", expected a tuple");
  }
  const Arguments arguments("the persistent id", **tuple, heap);
  const std::string_view kind = arguments.get<Text>(0, "text").text;
  if (kind == "storage") return load_storage(arguments, heap);
  if (kind != "module") arguments.refuse(0, "'storage'");
  return arguments.get<Foreign*>(1, "a class");
}

}  // namespace hydrascope::checkpoint::pickle

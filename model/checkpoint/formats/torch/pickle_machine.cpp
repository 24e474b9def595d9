#include "model/checkpoint/formats/torch/pickle_machine.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/byte_cursor.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_globals.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint::pickle {
namespace {

// The results of the names on the allow-list when a pickle calls them.

/// The result of `callable(*arguments, **keywords)`, or of `callable.__new__`: an `Object` for a
/// callable that is not on the allow-list and for a call with one among its arguments. Throws as
/// `refuse_call` does for a dangerous name, Error(decode_failed) that names callable and argument
/// for arguments that a name on the list does not take.
Value call(const Value& callable, Tuple* arguments, Heap& heap, Dict* keywords = nullptr);

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

/// `object.__setstate__(state)`.
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

/// The value of a persistent id of torch.save: ("storage", type, key, location, length) or, in the
/// legacy format, ("storage", type, key, location, length, view) where view is None or (key,
/// offset, length). Legacy files announce the class of a pickled module with ("module", type, file,
/// source), which stands for the class.
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

// The machine.

/// By the names of Python's Lib/pickle.py, without those of text protocols.
enum class Opcode : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binpersid = 'Q',
  reduce = 'R',
  binstring = 'T',
  short_binstring = 'U',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  empty_dict = '}',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  empty_list = ']',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  newobj = 0x81,
  ext1 = 0x82,
  ext2 = 0x83,
  ext4 = 0x84,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
  next_buffer = 0x97,
  readonly_buffer = 0x98
};

constexpr unsigned kNewestProtocol = 5;

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, Heap& heap)
      : heap_(heap), cursor_(bytes, "the pickle", heap.subject()) {}

  Result run() {
    while (true) {
      if (++opcodes_ > kMaxOpcodes) {
        heap_.fail("the pickle has more than " + std::to_string(kMaxOpcodes) + " opcodes");
      }
      const auto opcode = static_cast<Opcode>(cursor_.number<std::uint8_t>());
      if (opcode == Opcode::stop) break;
      execute(opcode);
    }
    const Value value = pop();
    // A name that nothing calls does no harm, but no file of weights needs it.
    for (const Foreign& foreign : heap_.all<Foreign>()) {
      if (foreign.risk != Risk::unknown && !foreign.is_called)
        refuse("refused to load " + python_name(foreign));
    }
    return {.value = value, .length = cursor_.position()};
  }

 private:
  void execute(Opcode opcode) {
    switch (opcode) {
      case Opcode::proto: return check_protocol(cursor_.number<std::uint8_t>());
      case Opcode::frame: return check_frame(cursor_.number<std::uint64_t>());

      case Opcode::none: return push(None{});
      case Opcode::newtrue: return push(true);
      case Opcode::newfalse: return push(false);
      case Opcode::binint1: return push(std::int64_t{cursor_.number<std::uint8_t>()});
      case Opcode::binint2: return push(std::int64_t{cursor_.number<std::uint16_t>()});
      case Opcode::binint:
        return push(std::int64_t{static_cast<std::int32_t>(cursor_.number<std::uint32_t>())});
      case Opcode::long1: return push_integer(cursor_.text(cursor_.number<std::uint8_t>()));
      case Opcode::long4: return push_integer(cursor_.text(cursor_.number<std::uint32_t>()));
      case Opcode::binfloat: return push_float();

      case Opcode::short_binstring:
      case Opcode::short_binunicode:
        return push(Text{cursor_.text(cursor_.number<std::uint8_t>())});
      case Opcode::binstring:
      case Opcode::binunicode: return push(Text{cursor_.text(cursor_.number<std::uint32_t>())});
      case Opcode::binunicode8: return push(Text{cursor_.text(cursor_.number<std::uint64_t>())});
      case Opcode::short_binbytes: return push(Bytes{cursor_.text(cursor_.number<std::uint8_t>())});
      case Opcode::binbytes: return push(Bytes{cursor_.text(cursor_.number<std::uint32_t>())});
      case Opcode::binbytes8:
      case Opcode::bytearray8: return push(Bytes{cursor_.text(cursor_.number<std::uint64_t>())});

      case Opcode::mark: return push_mark();
      case Opcode::pop: return discard();
      case Opcode::pop_mark: return static_cast<void>(pop_to_mark());
      case Opcode::dup: return push(top());
      case Opcode::memoize: return memoize(memo_.size());
      case Opcode::binput: return memoize(cursor_.number<std::uint8_t>());
      case Opcode::long_binput: return memoize(cursor_.number<std::uint32_t>());
      case Opcode::binget: return push(recall(cursor_.number<std::uint8_t>()));
      case Opcode::long_binget: return push(recall(cursor_.number<std::uint32_t>()));

      case Opcode::empty_tuple: return push(heap_.make(Tuple{}));
      case Opcode::tuple1: return push_tuple(1);
      case Opcode::tuple2: return push_tuple(2);
      case Opcode::tuple3: return push_tuple(3);
      case Opcode::tuple: return push(heap_.make(Tuple{pop_to_mark()}));
      case Opcode::empty_list: return push(heap_.make(List{}));
      case Opcode::append: return append(pop_some(1));
      case Opcode::appends: return append(pop_to_mark());
      case Opcode::empty_dict: return push(heap_.make(Dict{}));
      case Opcode::setitem: return set_items(pop_some(2));
      case Opcode::setitems: return set_items(pop_to_mark());
      case Opcode::empty_set: return push(Opaque{});
      case Opcode::additems: return add_items();
      case Opcode::frozenset: return pop_to_mark(), push(Opaque{});

      case Opcode::global: {
        const std::string_view module = cursor_.line();
        return push_global(module, cursor_.line());
      }
      case Opcode::stack_global: {
        const auto name = pop_as<Text>("text").text;
        return push_global(pop_as<Text>("text").text, name);
      }
      case Opcode::reduce:
      case Opcode::newobj: {
        auto* arguments = pop_as<Tuple*>("a tuple");
        return push(call(pop(), arguments, heap_));
      }
      case Opcode::newobj_ex: {
        auto* keywords = pop_as<Dict*>("a dict");
        auto* arguments = pop_as<Tuple*>("a tuple");
        return push(call(pop(), arguments, heap_, keywords));
      }
      case Opcode::build: {
        const Value state = pop();
        return set_state(top(), state, heap_);
      }
      case Opcode::binpersid: return push(load_persistent(pop(), heap_));

      case Opcode::ext1:
      case Opcode::ext2:
      case Opcode::ext4: refuse("refused to load a class by a number of Python's copyreg");
      case Opcode::next_buffer:
      case Opcode::readonly_buffer: refuse("the pickle needs buffers that lie outside the file");
      case Opcode::stop: break;
    }
    constexpr std::string_view kOfTextProtocols = "FILPSVdgilop";
    if (kOfTextProtocols.find(static_cast<char>(opcode)) != kOfTextProtocols.npos)
      throw Error(ErrorCode::unsupported_format,
                  "the pickle has the protocol 0 or 1, expected at least 2, torch.save's default",
                  heap_.subject(), "in Python: torch.save(torch.load(\"FILE\"), \"FILE\")");
    fail("an unknown opcode " + std::to_string(static_cast<unsigned>(opcode)));
  }

  [[noreturn]] void fail(const std::string& problem) const { cursor_.fail(problem); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unsupported_format, what, heap_.subject(),
                "a file of weights needs tensors and plain values only");
  }

  void check_protocol(unsigned protocol) const {
    if (protocol <= kNewestProtocol) return;
    refuse("the pickle has the protocol " + std::to_string(protocol) + ", expected at most " +
           std::to_string(kNewestProtocol));
  }
  void check_frame(std::uint64_t length) const {
    if (length > cursor_.remaining()) fail("a frame of " + std::to_string(length) + " bytes");
  }

  // The stack. Values below the last mark cannot be popped.

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void push(Value value) {
    if (stack_.size() >= kMaxStack) fail("too many values on the stack");
    stack_.push_back(value);
  }
  void push_mark() {
    if (marks_.size() >= kMaxStack) fail("too many marks on the stack");
    marks_.push_back(stack_.size());
  }
  [[nodiscard]] const Value& top() const {
    if (stack_.size() <= floor()) fail("the stack is empty");
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  template <class T>
  T as(const Value& value, std::string_view expected) const {
    const auto* found = std::get_if<T>(&value);
    if (found == nullptr) {
      fail("found " + std::string(describe(value)) + ", expected " + std::string(expected));
    }
    return *found;
  }
  template <class T>
  T pop_as(std::string_view expected) {
    return as<T>(pop(), expected);
  }
  /// The last `count` values, in the order in which they were pushed.
  std::vector<Value> pop_some(std::size_t count) {
    if (stack_.size() - floor() < count) fail("the stack is empty");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Value> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    return values;
  }
  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) fail("no mark on the stack");
    std::vector<Value> values = pop_some(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }
  /// POP takes a mark, too.
  void discard() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  // The memo.

  void memoize(std::size_t index) {
    // Pickles count from 0 or 1, so an index cannot run ahead of the opcodes.
    if (index > opcodes_ || index >= kMaxStack) fail("memo " + std::to_string(index));
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = top();
  }
  [[nodiscard]] const Value& recall(std::size_t index) const {
    if (index >= memo_.size() || !memo_[index]) {
      fail("memo " + std::to_string(index) + " was never stored");
    }
    return *memo_[index];
  }

  // Numbers.

  void push_integer(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) return push(BigInteger{bytes});
    const bool is_negative = !bytes.empty() && static_cast<unsigned char>(bytes.back()) >= 0x80;
    std::uint64_t bits = is_negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
    }
    push(static_cast<std::int64_t>(bits));
  }
  void push_float() {
    std::uint64_t bits = 0;  // the only big-endian number of the format
    for (const std::byte byte : cursor_.take(sizeof bits)) {
      bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
    }
    push(std::bit_cast<double>(bits));
  }

  // Containers.

  void push_tuple(std::size_t count) {
    std::vector<Value> items = pop_some(count);
    push(heap_.make(Tuple{std::move(items)}));
  }
  /// Objects of unknown classes of lists, sets and dicts take items too; they go to `top`.
  [[nodiscard]] bool took(const std::vector<Value>& values) const {
    const auto* object = std::get_if<Object*>(&top());
    if (object == nullptr) return false;
    (*object)->parts.insert((*object)->parts.end(), values.begin(), values.end());
    return true;
  }
  void append(const std::vector<Value>& values) {
    if (took(values)) return;
    std::vector<Value>& items = as<List*>(top(), "a list")->items;
    items.insert(items.end(), values.begin(), values.end());
  }
  void add_items() {
    if (!took(pop_to_mark())) as<Opaque>(top(), "a set");
  }
  void set_items(const std::vector<Value>& values) {
    if (values.size() % 2 != 0) fail("a key without a value");
    if (took(values)) return;
    Dict& dict = *as<Dict*>(top(), "a dict");
    for (std::size_t i = 0; i < values.size(); i += 2) {
      dict.items.emplace_back(values[i], values[i + 1]);
    }
  }

  // Names and calls.

  void push_global(std::string_view module, std::string_view name) {
    if (const Global* global = find_global(module, name)) return push(global);
    push(heap_.make(Foreign{module, name, risk_of(module, name)}));
  }

  Heap& heap_;
  ByteCursor cursor_;
  std::uint64_t opcodes_ = 0;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  ///< sizes that the stack had
  std::vector<std::optional<Value>> memo_;
};

}  // namespace

Result run(std::span<const std::byte> bytes, Heap& heap) { return Machine(bytes, heap).run(); }

}  // namespace hydrascope::checkpoint::pickle

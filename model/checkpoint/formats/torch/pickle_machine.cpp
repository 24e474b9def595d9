#include "model/checkpoint/formats/torch/pickle_machine.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/byte_cursor.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/formats/torch/pickle_calls.h"
#include "model/checkpoint/formats/torch/pickle_globals.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint::pickle {
namespace {

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

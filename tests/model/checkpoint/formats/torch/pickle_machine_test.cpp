#include "model/checkpoint/formats/torch/pickle_machine.h"

#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::checkpoint::pickle {
namespace {

using namespace std::string_literals;
using hydrascope::testing::call;
using hydrascope::testing::dict;
using hydrascope::testing::global;
using hydrascope::testing::little;
using hydrascope::testing::number;
using hydrascope::testing::numbers;
using hydrascope::testing::pickle_of;
using hydrascope::testing::storage;
using hydrascope::testing::storage_view;
using hydrascope::testing::tensor;
using hydrascope::testing::text;
using hydrascope::testing::tuple;
using ::testing::ElementsAre;

/// Runs the opcodes `body` and keeps alive what they make.
class Unpickled {
 public:
  explicit Unpickled(const std::string& body)
      : bytes_(pickle_of(body)), heap_(bytes_.size(), "x.pth") {
    value = run(bytes_of(bytes_), heap_).value;
  }
  template <class T>
  T as() const {
    EXPECT_TRUE(std::holds_alternative<T>(value)) << describe(value);
    return std::get<T>(value);
  }

  Value value;

 private:
  std::string bytes_;
  Heap heap_;
};

template <class T>
T result(const std::string& body) {
  return Unpickled(body).as<T>();
}
std::int64_t integer(const std::string& body) { return result<std::int64_t>(body); }
std::string text_result(const std::string& body) {
  const Unpickled run(body);
  return std::string(run.as<Text>().text);
}
std::string bytes_result(const std::string& body) {
  const Unpickled run(body);
  return std::string(run.as<Bytes>().bytes);
}
std::string_view kind(const std::string& body) { return describe(Unpickled(body).value); }

TEST(PickleMachineTest, ReadsNumbers) {
  EXPECT_EQ(integer("K\xFF"), 255);
  EXPECT_EQ(integer("M\xFF\xFF"), 65535);
  EXPECT_EQ(integer("J\xFE\xFF\xFF\xFF"), -2);
  EXPECT_EQ(integer("\x8a\x00"s), 0);
  EXPECT_EQ(integer("\x8a\x01\xFF"), -1);
  EXPECT_EQ(integer("\x8a\x02\xFF\x00"s), 255);
  EXPECT_EQ(integer("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s), INT64_MIN);
  EXPECT_EQ(integer("\x8b\x01\x00\x00\x00\x7F"s), 127);
  EXPECT_EQ(result<bool>("\x88"), true);
  EXPECT_EQ(result<double>("G\x3F\xF8\x00\x00\x00\x00\x00\x00"s), 1.5);
  EXPECT_EQ(kind("N"), "None");
  EXPECT_EQ(kind("\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09"), "an integer");
}

TEST(PickleMachineTest, ReadsText) {
  EXPECT_EQ(text_result("X\x02\x00\x00\x00hi"s), "hi");
  EXPECT_EQ(text_result("\x8c\x02hi"), "hi");
  EXPECT_EQ(text_result("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi"s), "hi");
  EXPECT_EQ(text_result("U\x02hi"), "hi");
  EXPECT_EQ(text_result("T\x02\x00\x00\x00hi"s), "hi");
  EXPECT_EQ(bytes_result("C\x02hi"), "hi");
  EXPECT_EQ(bytes_result("B\x02\x00\x00\x00hi"s), "hi");
  EXPECT_EQ(bytes_result("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi"s), "hi");
}

TEST(PickleMachineTest, BuildsContainers) {
  const Unpickled tuples("K\x01\x85K\x02K\x03\x86\x86");
  const Tuple& outer = *tuples.as<Tuple*>();
  ASSERT_EQ(outer.items.size(), 2u);
  EXPECT_EQ(std::get<Tuple*>(outer.items[1])->items.size(), 2u);
  EXPECT_EQ(Unpickled("NNN\x87").as<Tuple*>()->items.size(), 3u);
  EXPECT_TRUE(Unpickled(")").as<Tuple*>()->items.empty());
  EXPECT_EQ(Unpickled("](K\x01K\x02"
                      "eK\x03"
                      "a")
                .as<List*>()
                ->items.size(),
            3u);
  const Unpickled dicts(
      "}(K\x01K\x02"
      "uK\x03K\x04s(NNu");
  EXPECT_EQ(dicts.as<Dict*>()->items.size(), 3u);
  EXPECT_EQ(std::get<std::int64_t>(dicts.as<Dict*>()->items[1].second), 4);
  EXPECT_EQ(kind("\x8f(K\x01\x90"), "an opaque value");
  EXPECT_EQ(kind("(K\x01\x91"), "an opaque value");
  EXPECT_EQ(integer("K\x01(K\x02K\x03"
                    "1"),
            1);
  EXPECT_EQ(integer("K\x01K\x02"
                    "0"),
            1);
  EXPECT_EQ(integer("K\x01(0"), 1);
  EXPECT_ERROR(Unpickled("}(Nu"), decode_failed, "a key without a value");
  EXPECT_ERROR(Unpickled("NNa"), decode_failed, "found None, expected a list");
  EXPECT_ERROR(Unpickled("]NNs"), decode_failed, "found a list, expected a dict");
}

TEST(PickleMachineTest, RemembersValues) {
  EXPECT_EQ(integer("K\x05q\x00"
                    "0h\x00"s),
            5);
  EXPECT_EQ(integer("K\x05q\x01"
                    "0h\x01"),
            5);
  EXPECT_EQ(integer("K\x05r\x00\x00\x00\x00N0j\x00\x00\x00\x00"s), 5);
  EXPECT_EQ(integer("K\x05\x94K\x06\x94h\x00"s), 5);
  EXPECT_EQ(result<Tuple*>("K\x05"
                           "2\x86") != nullptr,
            true);
  EXPECT_ERROR(Unpickled("h\x07"), decode_failed, "memo 7 was never stored");
  EXPECT_ERROR(Unpickled("Nq\x02h\x01"), decode_failed, "memo 1 was never stored");
}

TEST(PickleMachineTest, AFewBytesCannotAskForALargeMemo) {
  EXPECT_ERROR(Unpickled("Nr\xFF\xFF\xFF\x7F"), decode_failed, "memo 2147483647");
}

TEST(PickleMachineTest, GuardsTheStack) {
  for (const std::string body : {"", "0", "N00", "a", "t", "u", "R", "N(0", "(2", "N(R", "\x85",
                                 "N\x86", "b", "Nb", "Q", "s", "\x93", "1", "\x90"}) {
    EXPECT_ERROR(Unpickled(body + (body == "N(0" ? "0" : "")), decode_failed, "pickle");
  }
  Heap heap(100, "x.pth");
  const std::string marks(kMaxStack + 1, '(');
  EXPECT_ERROR(run(bytes_of(marks), heap), decode_failed, "too many marks");
  const std::string values(kMaxStack + 1, 'N');
  EXPECT_ERROR(run(bytes_of(values), heap), decode_failed, "too many values");
}

TEST(PickleMachineTest, BoundsObjectsAndOpcodes) {
  std::string tuples;
  for (std::size_t i = 0; i <= kMaxObjects; ++i) tuples += ")0";
  EXPECT_ERROR(Unpickled(tuples), decode_failed, "more than 1048576 objects");
  std::string pops;
  for (std::size_t i = 0; i <= kMaxOpcodes / 2; ++i) pops += "N0";
  EXPECT_ERROR(Unpickled(pops), decode_failed, "more than 8388608 opcodes");
}

TEST(PickleMachineTest, CyclesAndNestingAreHarmless) {
  EXPECT_EQ(kind("]q\x00h\x00"
                 "ah\x00"
                 "a"s),
            "a list");  // holds itself, twice
  EXPECT_EQ(kind("}q\x00h\x00h\x00s"s), "a dict");
  EXPECT_EQ(kind("]q\x00h\x00\x85q\x01"
                 "0h\x01"
                 "a"s),
            "a list");
  std::string laughs = "]";
  for (int i = 0; i < 10'000; ++i)
    laughs +=
        "q\x01"
        "0]h\x01"
        "ah\x01"
        "a";  // 2^10000 leaves
  EXPECT_EQ(kind(laughs), "a list");
  EXPECT_EQ(kind("N" + std::string(100'000, '\x85')), "a tuple");
}

TEST(PickleMachineTest, ReadsFramesAndProtocols) {
  const std::string body = "\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x07.trailing"s;
  Heap heap(100, "x.pth");
  const Result result = run(bytes_of(body), heap);
  EXPECT_EQ(std::get<std::int64_t>(result.value), 7);
  EXPECT_EQ(result.length, body.find("trailing"));
  EXPECT_ERROR(Unpickled("\x95" + std::string(8, '\x7F')), decode_failed, "a frame of");
  EXPECT_ERROR(Unpickled("\x80\x06"), unsupported_format, "protocol 6, expected at most 5");
}

TEST(PickleMachineTest, RefusesTheProtocolsThatAreText) {
  for (const std::string body : {"I1\n", "L1L\n", "F1.5\n", "S'hi'\n", "Vhi\n", "Np0\n", "g0\n",
                                 "(l", "(d", "(o", "(iposix\nsystem\n", "P12\n"}) {
    EXPECT_ERROR(Unpickled(body), unsupported_format,
                 "the pickle has the protocol 0 or 1, expected at least 2", "x.pth");
  }
}

TEST(PickleMachineTest, RefusesUnknownOpcodesAndExtensions) {
  EXPECT_ERROR(Unpickled("?"), decode_failed, "unknown opcode 63");
  EXPECT_ERROR(Unpickled("\xFF"), decode_failed, "unknown opcode 255");
  EXPECT_ERROR(Unpickled("\x82\x01"), unsupported_format, "copyreg");
  EXPECT_ERROR(Unpickled("\x97"), unsupported_format, "buffers that lie outside");
}

TEST(PickleMachineTest, EveryCutIsAnError) {
  const std::string whole = pickle_of(
      dict({{"a", tensor(storage("FloatStorage", "0", 6), 0, {2, 3}, {3, 1})}, {"b", "K\x02"}}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Heap heap(100, "x.pth");
    EXPECT_ERROR(run(bytes_of(whole).first(size), heap), decode_failed, "cut off or damaged");
  }
}

TEST(PickleMachineTest, RefusesDangerousNamesWhereverTheyAreUsed) {
  const std::string system = global("posix", "system");
  const std::string arguments = tuple({text("touch x")});
  EXPECT_ERROR(Unpickled(system + arguments + "R"), unsupported_format, "refused to call os.system",
               "nothing of the file was executed");
  EXPECT_ERROR(Unpickled(global("nt", "system") + arguments + "R"), unsupported_format,
               "refused to call os.system");
  EXPECT_ERROR(Unpickled(text("posix") + text("system") + "\x93" + arguments + "R"),
               unsupported_format, "refused to call os.system");
  EXPECT_ERROR(Unpickled(global("__builtin__", "eval") + arguments + "R"), unsupported_format,
               "refused to call builtins.eval");
  EXPECT_ERROR(Unpickled(global("subprocess", "Popen") + ")\x81"), unsupported_format,
               "refused to call subprocess.Popen");
  EXPECT_ERROR(Unpickled(global("subprocess", "Popen") + ")}\x92"), unsupported_format,
               "refused to call subprocess.Popen");
  // As protocol 2 spells it, for Python 2.
  EXPECT_ERROR(Unpickled(global("commands", "Popen") + ")\x81"), unsupported_format,
               "refused to call subprocess.Popen");
  EXPECT_EQ(kind(global("commands.train", "Settings") + ")\x81"), "an object of unknown code");
  EXPECT_ERROR(Unpickled(system + "0N"), unsupported_format, "refused to load os.system");
  // As what an unknown function is to call, and through another module.
  EXPECT_ERROR(Unpickled(call(global("functools", "partial"), {system})), unsupported_format,
               "refused to load os.system");
  for (const auto& [module, name] : {std::pair{"torch.serialization", "os.system"},
                                     {"a", "sys.modules"},
                                     {"os.path", "join"},
                                     {"__builtin__", "__import__"},
                                     {"importlib", "import_module"},
                                     {"runpy", "run_path"},
                                     {"pty", "spawn"},
                                     {"shutil", "rmtree"},
                                     {"socket", "socket"},
                                     {"_io", "open"},
                                     {"torch", "load"},
                                     {"torch.hub", "load"},
                                     {"pickle", "loads"},
                                     {"pydoc", "locate"}}) {
    EXPECT_ERROR(Unpickled(call(global(module, name), {})), unsupported_format, "refused to call");
  }
}

TEST(PickleMachineTest, UnknownNamesMakeObjectsThatNobodyLooksInto) {
  constexpr std::string_view kObject = "an object of unknown code";
  const std::string path = call(global("pathlib", "PosixPath"), {text("/"), text("a")});
  EXPECT_EQ(kind(path), kObject);
  const Unpickled run(global("toy", "Net") + ")\x81" + dict({{"a", path}}) + "b");
  const Object& net = *run.as<Object*>();
  EXPECT_EQ(std::get<Foreign*>(net.maker)->name, "Net");
  ASSERT_EQ(net.parts.size(), 2u);  // arguments and state
  EXPECT_NE(find(*std::get<Dict*>(net.parts[1]), "a"), nullptr);
  // With keywords, of what a call gave, of a class of lists, of dicts and of sets.
  EXPECT_EQ(kind(global("toy", "Net") + ")" + dict({{"size", "K\x02"}}) + "\x92"), kObject);
  EXPECT_EQ(kind(path + ")R"), kObject);
  EXPECT_EQ(Unpickled(path + "(K\x01K\x02"
                             "e")
                .as<Object*>()
                ->parts.size(),
            3u);
  EXPECT_EQ(Unpickled(path + "K\x01"
                             "a")
                .as<Object*>()
                ->parts.size(),
            2u);
  EXPECT_EQ(Unpickled(path + "(K\x01"
                             "\x90")
                .as<Object*>()
                ->parts.size(),
            2u);
  EXPECT_EQ(Unpickled(path + "(K\x01K\x02"
                             "u")
                .as<Object*>()
                ->parts.size(),
            3u);
  EXPECT_ERROR(Unpickled(path + "(K\x01"
                                "u"),
               decode_failed, "a key without a value");
  // As keys and values, and as what functions on the list are given.
  EXPECT_EQ(kind("}" + path + path + "s"), "a dict");
  EXPECT_EQ(kind(call(global("torch._utils", "_rebuild_parameter"), {path, "\x88", "}"})), kObject);
  EXPECT_EQ(kind(call(global("collections", "OrderedDict"), {path})), kObject);
  EXPECT_EQ(kind(call(global("collections", "defaultdict"), {global("__builtin__", "list")})),
            "a dict");
  EXPECT_EQ(kind(tuple({text("module"), global("toy", "Net"), "N", "N"}) + "Q"),
            "a function or class that is not on the allow-list");
  const Unpickled old(call(global("copy_reg", "_reconstructor"),
                           {global("toy", "Net"), global("__builtin__", "object"), "N"}));
  EXPECT_EQ(std::get<Foreign*>(old.as<Object*>()->maker)->name, "Net");
}

TEST(PickleMachineTest, AttributesOfClassesAreNoWayOut) {
  const auto attribute = [](const std::string& of, const std::string& member) {
    return call(global("__builtin__", "getattr"), {of, text(member)});
  };
  const std::string net = global("toy", "Net");
  EXPECT_EQ(kind(attribute(net, "from_path")), "an object of unknown code");
  EXPECT_EQ(kind(call(attribute(net, "__new__"), {net})), "an object of unknown code");
  for (const char* member : {"__globals__", "__class__", "__subclasses__", "os", "os.system"}) {
    EXPECT_ERROR(Unpickled(attribute(net, member)), unsupported_format,
                 "refused to call builtins.getattr");
  }
  EXPECT_ERROR(Unpickled(attribute(global("os", "path"), "join")), unsupported_format,
               "refused to load os.path");
  EXPECT_ERROR(Unpickled(call(global("__builtin__", "getattr"), {net})), unsupported_format,
               "refused to call builtins.getattr");
  EXPECT_ERROR(Unpickled(global("__builtin__", "getattr")), unsupported_format,
               "refused to load builtins.getattr");
}

TEST(PickleMachineTest, AllowedNamesHaveNoDotsOfTheirOwn) {
  EXPECT_EQ(kind(global("torch", "_utils._rebuild_tensor_v2") + ")R"), "an object of unknown code");
  EXPECT_EQ(kind(global("collections.OrderedDict", "") + ")R"), "an object of unknown code");
}

TEST(PickleMachineTest, TensorsOfATypeAreThoseOfItsFunction) {
  const std::string view = tensor(storage("FloatStorage", "0", 6), 0, {2}, {1});
  const auto typed = [&](const std::string& function, const std::string& type) {
    return call(global("torch._tensor", "_rebuild_from_type_v2"),
                {function, type, tuple({view, "\x88", "}"}), "}"});
  };
  const std::string parameter = global("torch._utils", "_rebuild_parameter");
  EXPECT_EQ(kind(typed(parameter, global("torch", "Tensor"))), "a tensor");
  EXPECT_EQ(kind(typed(parameter, global("toy", "Tensor"))), "an object of unknown code");
  const std::string itself = global("torch._tensor", "_rebuild_from_type_v2");
  EXPECT_EQ(kind(typed(itself, global("torch", "Tensor"))), "an object of unknown code");
}

TEST(PickleMachineTest, CallsWhatIsAllowed) {
  EXPECT_EQ(kind(call(global("collections", "OrderedDict"), {})), "a dict");
  const Unpickled pairs(call(global("collections", "OrderedDict"), {"](](NK\x01"
                                                                    "e](NK\x02"
                                                                    "ee"}));
  EXPECT_EQ(pairs.as<Dict*>()->items.size(), 2u);
  EXPECT_EQ(kind(call(global("collections", "Counter"), {"}"})), "a dict");
  EXPECT_EQ(kind(call(global("torch", "Size"), {numbers({1, 2})})), "a tuple");
  EXPECT_EQ(kind(call(global("torch", "device"), {text("cuda"), number(0)})), "an opaque value");
  EXPECT_EQ(kind(call(global("__builtin__", "set"), {"]"})), "an opaque value");
  EXPECT_EQ(bytes_result(call(global("_codecs", "encode"), {text("aÿ"), text("latin1")})), "a\xFF");
  EXPECT_EQ(bytes_result(call(global("__builtin__", "bytes"), {})), "");
  EXPECT_EQ(kind(global("torch", "float32")), "a function or class");

  const Unpickled name_space(global("argparse", "Namespace") + ")\x81" + dict({{"lr", "K\x02"}}) +
                             "b");
  const Dict& fields = *name_space.as<Namespace*>()->fields;
  EXPECT_EQ(std::get<std::int64_t>(*find(fields, "lr")), 2);
  EXPECT_EQ(find(fields, "x"), nullptr);

  // Attributes of an OrderedDict are dropped.
  EXPECT_EQ(kind("}" + dict({{"_metadata", "N"}}) + "b"), "a dict");
  EXPECT_ERROR(Unpickled("K\x01}b"), decode_failed, "sets the state of an integer");
  EXPECT_ERROR(Unpickled("K\x01)R"), decode_failed, "calls an integer");
  EXPECT_ERROR(Unpickled(global("torch", "FloatStorage") + ")R"), decode_failed,
               "torch.FloatStorage is called");
  EXPECT_ERROR(Unpickled(call(global("_codecs", "encode"), {text("a"), text("rot13")})),
               decode_failed, "_codecs.encode: argument 1 is text, expected 'latin1'");
  EXPECT_ERROR(Unpickled(call(global("_codecs", "encode"), {text("€"), text("latin1")})),
               decode_failed, "expected characters of Latin-1");
  EXPECT_ERROR(Unpickled(call(global("_codecs", "encode"), {text("a")})), decode_failed,
               "found 1 arguments, expected 2");
}

TEST(PickleMachineTest, NumpyScalarsAreOpaque) {
  const std::string type = call(global("numpy", "dtype"), {text("f8"), "\x89", "\x88"}) +
                           tuple({"K\x03", text("<"), "N", "N", "N"}) + "b";
  EXPECT_EQ(kind(call(global("numpy._core.multiarray", "scalar"),
                      {type, "C\x08" + little(0x3FF8000000000000, 8)})),
            "an opaque value");
}

TEST(PickleMachineTest, DescribesTensors) {
  const Unpickled run(tensor(storage_view("HalfStorage", "7", 20, 3, 12), 2, {2, 3}, {1, 4}));
  const Tensor& view = *run.as<Tensor*>();
  EXPECT_EQ(view.dtype, Dtype::F16);
  EXPECT_EQ(view.offset, 2);
  EXPECT_THAT(view.shape, ElementsAre(2, 3));
  EXPECT_THAT(view.strides, ElementsAre(1, 4));
  EXPECT_EQ(view.storage->key, "7");
  EXPECT_EQ(view.storage->length, 20);
  EXPECT_EQ(view.storage->view_offset, 3);
  EXPECT_EQ(view.storage->view_length, 12);

  const std::string bytes = storage("UntypedStorage", "0", 8);
  const Unpickled typed(
      call(global("torch._utils", "_rebuild_tensor_v3"),
           {bytes, number(0), numbers({4}), numbers({1}), "\x89", "}", global("torch", "uint16")}));
  EXPECT_EQ(typed.as<Tensor*>()->dtype, Dtype::U16);
  const Unpickled old(call(global("torch._utils", "_rebuild_tensor"),
                           {storage("LongStorage", "0", 8), number(0), numbers({}), numbers({})}));
  EXPECT_EQ(old.as<Tensor*>()->dtype, Dtype::I64);
  const Unpickled parameter(
      call(global("torch._utils", "_rebuild_parameter"),
           {tensor(storage("BoolStorage", "0", 8), 0, {8}, {1}), "\x88", "}"}));
  EXPECT_EQ(parameter.as<Tensor*>()->dtype, Dtype::BOOL);
}

TEST(PickleMachineTest, RefusesBadTensors) {
  const std::string floats = storage("FloatStorage", "0", 6);
  EXPECT_ERROR(Unpickled(tensor(floats, -1, {1}, {1})), decode_failed, "argument 1",
               "not negative");
  EXPECT_ERROR(Unpickled(tensor(floats, 0, {-1}, {1})), decode_failed, "argument 2",
               "integers >= 0");
  EXPECT_ERROR(Unpickled(tensor(floats, 0, {1}, {-1})), decode_failed, "argument 3",
               "integers >= 0");
  EXPECT_ERROR(Unpickled(tensor(floats, 0, {1, 2}, {1})), decode_failed, "2 strides");
  const std::vector<std::int64_t> many(kMaxRank + 1, 1);
  EXPECT_ERROR(Unpickled(tensor(floats, 0, many, many)), decode_failed, "at most 16 items");
  EXPECT_ERROR(Unpickled(tensor("N", 0, {1}, {1})), decode_failed,
               "_rebuild_tensor_v2: argument 0 is None, expected a storage");
  EXPECT_ERROR(Unpickled(storage("float32", "0", 1)), decode_failed, "expected a storage type");
  EXPECT_ERROR(Unpickled(storage("FloatStorage", "0", -1)), decode_failed, "not negative");
  EXPECT_EQ(Unpickled(storage("Bits8Storage", "0", 1)).as<Storage*>()->type, "Bits8Storage");
  EXPECT_ERROR(Unpickled(text("12") + "Q"), decode_failed, "the persistent id is text");
  EXPECT_ERROR(Unpickled(tuple({text("other")}) + "Q"), decode_failed, "expected 'storage'");
  EXPECT_TRUE(Unpickled(call(global("torch._utils", "_rebuild_tensor_v2"),
                             {floats, number(0), numbers({1}), numbers({1}), "\x89", "}",
                              dict({{"neg", "\x88"}})}))
                  .as<Tensor*>()
                  ->is_marked);
}

TEST(PickleMachineTest, CopiesCannotMultiply) {
  // One long text, encoded again and again with five bytes each.
  std::string body = global("_codecs", "encode") + "q\x01" + "0" +
                     tuple({text(std::string(100'000, 'a')), text("latin1")}) + "q\x02" + "0";
  for (int i = 0; i < 1000; ++i) body += "h\x01h\x02R0";
  EXPECT_ERROR(Unpickled(body + "N"), decode_failed, "copies its values too often");
}

}  // namespace
}  // namespace hydrascope::checkpoint::pickle

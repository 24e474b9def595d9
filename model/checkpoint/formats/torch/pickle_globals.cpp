#include "model/checkpoint/formats/torch/pickle_globals.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace hydrascope::checkpoint::pickle {
namespace {

constexpr auto kNothing = std::nullopt;

constexpr std::array kGlobals{
    Global{"collections.OrderedDict", Role::dict, kNothing},
    Global{"collections.Counter", Role::dict, kNothing},
    Global{"collections.defaultdict", Role::default_dict, kNothing},
    Global{"argparse.Namespace", Role::name_space, kNothing},
    Global{"builtins.set", Role::opaque, kNothing},
    Global{"builtins.frozenset", Role::opaque, kNothing},
    Global{"builtins.bytes", Role::byte_string, kNothing},
    Global{"_codecs.encode", Role::encode, kNothing},

    Global{"numpy.dtype", Role::opaque, kNothing},
    Global{"numpy.core.multiarray.scalar", Role::opaque, kNothing},
    Global{"numpy._core.multiarray.scalar", Role::opaque, kNothing},

    Global{"torch.Size", Role::torch_size, kNothing},
    Global{"torch.device", Role::opaque, kNothing},
    Global{"torch._utils._rebuild_tensor", Role::tensor, kNothing},
    Global{"torch._utils._rebuild_tensor_v2", Role::tensor, kNothing},
    Global{"torch._utils._rebuild_tensor_v3", Role::tensor_v3, kNothing},
    Global{"torch._tensor._rebuild_from_type_v2", Role::typed_tensor, kNothing},
    Global{"torch._utils._rebuild_parameter", Role::parameter, kNothing},
    Global{"torch._utils._rebuild_parameter_with_state", Role::parameter, kNothing},

    Global{"torch.FloatStorage", Role::storage_type, Dtype::F32},
    Global{"torch.HalfStorage", Role::storage_type, Dtype::F16},
    Global{"torch.BFloat16Storage", Role::storage_type, Dtype::BF16},
    Global{"torch.DoubleStorage", Role::storage_type, Dtype::F64},
    Global{"torch.LongStorage", Role::storage_type, Dtype::I64},
    Global{"torch.IntStorage", Role::storage_type, Dtype::I32},
    Global{"torch.ShortStorage", Role::storage_type, Dtype::I16},
    Global{"torch.CharStorage", Role::storage_type, Dtype::I8},
    Global{"torch.ByteStorage", Role::storage_type, Dtype::U8},
    Global{"torch.BoolStorage", Role::storage_type, Dtype::BOOL},
    Global{"torch.ComplexFloatStorage", Role::storage_type, Dtype::C64},
    Global{"torch.ComplexDoubleStorage", Role::storage_type, kNothing},
    Global{"torch.QInt8Storage", Role::storage_type, kNothing},
    Global{"torch.QUInt8Storage", Role::storage_type, kNothing},
    Global{"torch.QInt32Storage", Role::storage_type, kNothing},
    Global{"torch.QUInt4x2Storage", Role::storage_type, kNothing},
    Global{"torch.QUInt2x4Storage", Role::storage_type, kNothing},
    Global{"torch.UntypedStorage", Role::storage_type, Dtype::U8},
    Global{"torch.storage.UntypedStorage", Role::storage_type, Dtype::U8},
    Global{"torch.storage._UntypedStorage", Role::storage_type, Dtype::U8},

    Global{"torch.float32", Role::dtype, Dtype::F32},
    Global{"torch.float16", Role::dtype, Dtype::F16},
    Global{"torch.bfloat16", Role::dtype, Dtype::BF16},
    Global{"torch.float64", Role::dtype, Dtype::F64},
    Global{"torch.int64", Role::dtype, Dtype::I64},
    Global{"torch.int32", Role::dtype, Dtype::I32},
    Global{"torch.int16", Role::dtype, Dtype::I16},
    Global{"torch.int8", Role::dtype, Dtype::I8},
    Global{"torch.uint64", Role::dtype, Dtype::U64},
    Global{"torch.uint32", Role::dtype, Dtype::U32},
    Global{"torch.uint16", Role::dtype, Dtype::U16},
    Global{"torch.uint8", Role::dtype, Dtype::U8},
    Global{"torch.bool", Role::dtype, Dtype::BOOL},
    Global{"torch.float8_e4m3fn", Role::dtype, Dtype::F8_E4M3},
    Global{"torch.float8_e5m2", Role::dtype, Dtype::F8_E5M2},
    Global{"torch.float8_e8m0fnu", Role::dtype, Dtype::F8_E8M0},
    Global{"torch.float8_e4m3fnuz", Role::dtype, Dtype::F8_E4M3FNUZ},
    Global{"torch.float8_e5m2fnuz", Role::dtype, Dtype::F8_E5M2FNUZ},
    Global{"torch.complex32", Role::dtype, kNothing},
    Global{"torch.complex64", Role::dtype, Dtype::C64},
    Global{"torch.complex128", Role::dtype, kNothing},
    Global{"torch.qint8", Role::dtype, kNothing},
    Global{"torch.quint8", Role::dtype, kNothing},
    Global{"torch.qint32", Role::dtype, kNothing},
};

/// Modules that pickles spell differently from the people who import them.
struct Alias {
  std::string_view pickled;
  std::string_view imported;
};
constexpr std::array kAliases{
    Alias{"__builtin__", "builtins"},
    Alias{"copy_reg", "copyreg"},
    Alias{"posix", "os"},
    Alias{"nt", "os"},
    Alias{"commands", "subprocess"},
    Alias{"urllib2", "urllib.request"},
    Alias{"_winreg", "winreg"},
};

std::string_view imported_module(std::string_view module) {
  const auto alias = std::ranges::find(kAliases, module, &Alias::pickled);
  return alias == kAliases.end() ? module : alias->imported;
}

/// Modules, classes and functions that run code or reach the system. A pickle's calls are never
/// run, so the list protects nothing: it tells files that were made to do harm from the others.
constexpr auto kDangerous = std::to_array<std::string_view>(
    {// Attributes of other modules bear these names, too.
     "builtins", "ctypes", "importlib", "nt", "os", "posix", "pty", "runpy", "shutil", "socket",
     "subprocess", "sys",
     // The names below are no such attributes.
     "_ctypes", "_io.FileIO", "_io.open", "_operator.attrgetter", "_operator.methodcaller",
     "_pickle", "_posixsubprocess", "_socket", "_winapi", "aiohttp", "asyncio", "atexit", "bdb",
     "builtins.apply", "builtins.breakpoint", "builtins.compile", "builtins.delattr",
     "builtins.eval", "builtins.exec", "builtins.execfile", "builtins.exit", "builtins.file",
     "builtins.globals", "builtins.help", "builtins.input", "builtins.locals", "builtins.open",
     "builtins.quit", "builtins.raw_input", "builtins.reload", "builtins.setattr", "builtins.vars",
     "cPickle", "cProfile", "code.InteractiveConsole", "code.InteractiveInterpreter",
     "code.interact", "codecs.open", "doctest", "ensurepip", "ftplib", "httplib", "imp",
     "io.FileIO", "io.open", "marshal", "msvcrt", "numpy.load", "operator.attrgetter",
     "operator.methodcaller", "pdb", "pickle.Unpickler", "pickle.load", "pickle.loads", "pip",
     "pkgutil", "platform.popen", "popen2", "profile.run", "pydoc", "requests.api", "requests.get",
     "requests.post", "smtplib", "telnetlib", "timeit", "torch.hub", "torch.load",
     "torch.serialization.load", "torch.utils.cpp_extension", "urllib.request", "venv",
     "webbrowser", "winreg", "zipimport"});
constexpr std::size_t kAnywhere = 12;

/// Whether `path` is one of `places` or lies in one.
bool lies_in(std::string_view path, std::span<const std::string_view> places) {
  return std::ranges::any_of(places, [&](std::string_view place) {
    return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '.');
  });
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '<' || c == '>';
}

constexpr std::string_view kNothingWasExecuted =
    "nothing of the file was executed; if you trust it, save its tensors alone in Python: "
    "torch.save(model.state_dict(), \"weights.pth\")";

}  // namespace

const Global* find_global(std::string_view module, std::string_view name) {
  // "torch" and "a.b" must not pass for "torch.a" and "b".
  if (name.find('.') != std::string_view::npos) return nullptr;
  module = imported_module(module);
  const auto found = std::ranges::find_if(kGlobals, [&](const Global& global) {
    return global.name.size() == module.size() + 1 + name.size() &&
           global.name.starts_with(module) && global.name[module.size()] == '.' &&
           global.name.ends_with(name);
  });
  return found == kGlobals.end() ? nullptr : &*found;
}

std::string python_name(const Foreign& foreign) {
  constexpr std::size_t kLongest = 200;
  std::string text(imported_module(foreign.module).substr(0, kLongest));
  text += '.';
  text += foreign.name.substr(0, kLongest);
  if (text.size() > kLongest || !std::ranges::all_of(text, is_plain)) return quote(text);
  return text;
}

void refuse_call(const Foreign& function, const std::string& subject) {
  throw Error(ErrorCode::unsupported_format, "refused to call " + python_name(function), subject,
              std::string(kNothingWasExecuted));
}

Risk risk_of(std::string_view module, std::string_view name) {
  // Longer than any name of the list; a pickle may repeat a long text at no cost.
  constexpr std::size_t kLongest = 64;
  const std::span<const std::string_view> places(kDangerous);
  module = imported_module(module).substr(0, kLongest);
  name = name.substr(0, kLongest);
  if (module == "builtins") {
    if (name == "getattr") return Risk::attribute;
    if (name.starts_with("__")) return Risk::dangerous;
  } else if (lies_in(module, places)) {
    return Risk::dangerous;
  }
  if (lies_in(std::string(module) + '.' + std::string(name), places.subspan(1)))
    return Risk::dangerous;
  // A path through attributes, "os.system" of "torch.serialization", leads to the same name.
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (lies_in(name.substr(at), places.first(kAnywhere))) return Risk::dangerous;
    at = std::min(name.find('.', at), name.size());
  }
  return Risk::unknown;
}

}  // namespace hydrascope::checkpoint::pickle

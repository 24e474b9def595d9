#include "model/checkpoint/formats/torch/pickle_globals.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/strict_json.h"

#include <algorithm>
#include <array>

namespace hydrascope::checkpoint::pickle {
namespace {

constexpr auto kNothing = std::nullopt;

constexpr std::array kGlobals{
    Global{"collections.OrderedDict", Role::dict, kNothing},
    Global{"collections.Counter", Role::dict, kNothing},
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
    Global{"torch.float8_e4m3fnuz", Role::dtype, kNothing},
    Global{"torch.float8_e5m2fnuz", Role::dtype, kNothing},
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
};

std::string_view imported_module(std::string_view module) {
  const auto alias = std::ranges::find(kAliases, module, &Alias::pickled);
  return alias == kAliases.end() ? module : alias->imported;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '<' || c == '>';
}

constexpr std::string_view kNothingWasExecuted =
    "nothing of the file was executed; if you trust it, save its tensors alone in Python: "
    "torch.save(model.state_dict(), \"weights.pth\")";
constexpr std::string_view kSaveStateDict =
    "in Python, save model.state_dict() instead of whole objects: torch.save(model.state_dict(), "
    "\"weights.pth\")";

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

void refuse_object(const Foreign& type, const std::string& subject) {
  throw Error(ErrorCode::unsupported_format,
              "refused to build an object of the class " + python_name(type) +
                  ": expected a state dict, found whole pickled objects",
              subject, std::string(kSaveStateDict));
}

}  // namespace hydrascope::checkpoint::pickle

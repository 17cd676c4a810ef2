// Finds the kernels and the operators of bindings, and compares their scalars.
#include "binding.h"

#include <c10/util/StringUtil.h>

#include <string>
#include <vector>

namespace rustdev {

c10::OperatorName operator_name(const char* name) {
  const std::string given = name, full = given.find("::") == std::string::npos ? "aten::" + given : given;
  const size_t dot = full.find('.');
  return {full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)};
}

c10::OperatorHandle find_operator(const char* name) {
  const c10::OperatorName full = operator_name(name);
  return c10::Dispatcher::singleton().findSchemaOrThrow(full.name.c_str(), full.overload_name.c_str());
}

void find_kernel(Binding& binding, const Names& names) {
  binding.op = kernel(names.kernel);
  binding.dtypes = rd_op_dtypes(binding.op);
  binding.functional = find_operator(names.functional);
  binding.out = find_operator(names.out);
  if (names.inplace != nullptr) {
    binding.inplace = find_operator(names.inplace);
  }
}

void check_scalars(const rd_op* op, const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto* const optional = argument.type()->castRaw<c10::OptionalType>();
    const c10::TypeKind kind = (optional != nullptr ? *optional->getElementType() : *argument.type()).kind();
    if (optional != nullptr && kind != c10::TypeKind::StringType) {
      names.push_back("has_" + argument.name());
    }
    if (kind != c10::TypeKind::TensorType) {
      names.push_back(argument.name());
    }
  }
  RD_CHECK(rd_op_check_scalars(op, c10::Join(", ", names).c_str()));
}

Binding named_kernel(const char* name) {
  Binding binding;
  binding.op = kernel(name);
  binding.dtypes = rd_op_dtypes(binding.op);
  return binding;
}

}  // namespace rustdev

// Finds operators and compares their scalars: see binding.h.
#include "binding.h"

#include <c10/util/StringUtil.h>

#include <string>
#include <vector>

#include "check.h"

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

}  // namespace rustdev

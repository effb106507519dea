#include "tools/print.h"

#include <cerrno>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace hmann {

absl::Status PrintJson(const nlohmann::ordered_json& object) {
  errno = 0;
  std::cout << object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
            << std::endl;
  if (!std::cout.good())
    return absl::DataLossError(absl::StrCat("write to stdout: ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace hmann

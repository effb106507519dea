#include "tools/commands.h"
#include "tools/eval_program.h"

namespace hmann::tools {

/// All that follows `eval` is read by hmann-eval, --help too.
CommandAction SetupEval(CLI::App& app) {
  app.set_help_flag();
  app.prefix_command();
  return [&app] { return BecomeEvalProgram(app.remaining()); };
}

}  // namespace hmann::tools

#include "tools/commands.h"
#include "tools/eval_program.h"

namespace hmann::tools {

/// hmann-eval reads everything that follows `eval`, including --help.
CommandAction SetupEval(CLI::App& app) {
  app.set_help_flag();
  app.prefix_command();
  return [&app] { return BecomeEvalProgram(app.remaining()); };
}

}  // namespace hmann::tools

#pragma once

namespace hmann::tools {

/// Handles reads of a mapped file that fail (SIGBUS: its device failed, or another
/// process truncated it). From now on such a read ends the process with exit code 1 and a
/// line on stderr that names the file, instead of "Bus error". Files that are being
/// written are left behind, as by kill -9.
void NameFailedReads();

}  // namespace hmann::tools

// SPDX-License-Identifier: Apache-2.0
// Runs the supervisor or the API server. `patchbay up` and the supervisor start this program.
import { messageOf } from "@patchbay/base";
import { createLogger } from "@patchbay/telemetry/logger";
import { parseArguments } from "./config.ts";
import { buildHealthSocketPath, buildPaths } from "./data-dir/paths.ts";

// Child processes inherit the umask. With umask 077, launchers could not read the images that containerd unpacks.
process.umask(0o022);

const { role, ...wanted } = parseArguments(process.argv);
const log = createLogger({ component: role, level: "info" });
process.stdout.on("error", () => undefined);

try {
  if (role === "apiserver") {
    const { runApiServer } = await import("./api-server.ts");
    const { dataDir } = wanted;
    await runApiServer({ dataDir, healthSocket: buildHealthSocketPath(buildPaths(dataDir), role) });
  } else {
    const { supervise } = await import("./supervisor/supervisor.ts");
    await supervise(wanted, log);
  }
  process.exitCode = 0;
} catch (error) {
  log.error("failed", { reason: messageOf(error), err: error });
  process.exitCode = 1;
}
// Without this call, the watches on components that an earlier supervisor started would keep this process running.
process.exit();

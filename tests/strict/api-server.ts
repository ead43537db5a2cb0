// SPDX-License-Identifier: Apache-2.0
// The API server of a standalone machine, as strict as a cluster's. The supervisor starts it in place of its own.
import { STRICT } from "@patchbay/apiserver/testing";
import { runApiServer } from "@patchbay/supervisor";
import { buildHealthSocketPath, parseArguments, buildPaths } from "@patchbay/supervisor/testing";

process.umask(0o022);
process.stdout.on("error", () => undefined);
const { role, dataDir } = parseArguments(process.argv);
const healthSocket = buildHealthSocketPath(buildPaths(dataDir), role);
await runApiServer({ dataDir, healthSocket, extensions: STRICT });
process.exit();

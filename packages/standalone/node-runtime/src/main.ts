// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runNode } from "./compose.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "node-runtime", flags, node: flags.nodeName }, (context) =>
  runNode(context, flags),
);

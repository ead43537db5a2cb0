// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runAgent } from "./compose.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "net-agent", flags, node: flags.nodeName }, (context) =>
  runAgent(context, flags),
);

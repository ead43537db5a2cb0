// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runHandler } from "./compose.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "virt-handler", flags, node: flags.nodeName }, (context) =>
  runHandler(context, flags),
);

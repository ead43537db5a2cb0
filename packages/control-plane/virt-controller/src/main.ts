// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runController } from "./compose.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "virt-controller", flags }, (context) =>
  runController(context, flags),
);

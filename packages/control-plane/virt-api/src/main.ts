// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runApi } from "./compose.ts";

const flags = parseFlags(process.argv);
const settings = { component: "virt-api", flags, drainMs: flags.drainSeconds * 1000 };
await runDaemon(settings, (context) => runApi(context, flags));

// SPDX-License-Identifier: Apache-2.0
// The program virt-api.
import { runDaemon } from "@patchbay/daemon";
import { parseFlags } from "./config.ts";
import { runApi } from "./compose.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "virt-api", flags }, (context) => runApi(context, flags));

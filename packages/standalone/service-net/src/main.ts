// SPDX-License-Identifier: Apache-2.0
import { runDaemon } from "@patchbay/daemon";
import { runServices } from "./compose.ts";
import { parseFlags } from "./config.ts";

const flags = parseFlags(process.argv);
await runDaemon({ component: "service-net", flags }, (context) => runServices(context, flags));

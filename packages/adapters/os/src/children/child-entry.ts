// SPDX-License-Identifier: Apache-2.0
// Entry point of child processes: loads a module, drops all privileges if a user is given, and runs the module. Started by child.ts.
import { Socket } from "node:net";
import type { ChildMain } from "@patchbay/core/interfaces";
import { JsonChannel } from "./json-channel.ts";
import { osNative } from "../native.ts";

const MESSAGES_FD = 3;
const DESCRIPTORS_FD = 4;

function killSelf(): void {
  // process.exit would run destructors, which would wait for a thread that may hang in libvirt.
  process.kill(process.pid, "SIGKILL");
}

const [module = "", identityText = ""] = process.argv.slice(2);
const stream = new Socket({ fd: MESSAGES_FD, readable: true, writable: true });
stream.on("close", killSelf);
const channel = new JsonChannel(stream, DESCRIPTORS_FD);
const program = (await import(module)) as { readonly main: ChildMain };
const [uid, gid] = identityText.split(":").map(Number);
if (uid !== undefined && gid !== undefined && identityText !== "") {
  osNative().dropPrivileges(uid, gid);
} else {
  osNative();
}
channel.send("ready");
program.main(channel);

// SPDX-License-Identifier: Apache-2.0
// The first code of a child: loads its module, gives up all privileges, then lets it run. Started by child.ts only.
import { Socket } from "node:net";
import type { ChildMain } from "@patchbay/core/ports";
import { JsonChannel } from "./json-channel.ts";
import { osNative } from "../native.ts";

/** Descriptors that child.ts hands over. */
const MESSAGES_FD = 3;
const DESCRIPTORS_FD = 4;

function endAtOnce(): void {
  // Not process.exit: a thread that hangs in libvirt would keep its destructors waiting.
  process.kill(process.pid, "SIGKILL");
}

const [module = "", identity = ""] = process.argv.slice(2);
const stream = new Socket({ fd: MESSAGES_FD, readable: true, writable: true });
stream.on("close", endAtOnce);
const channel = new JsonChannel(stream, DESCRIPTORS_FD);
// ChildProgram.module promises this export.
const program = (await import(module)) as { readonly main: ChildMain };
const [uid, gid] = identity.split(":").map(Number);
if (uid !== undefined && gid !== undefined && identity !== "") {
  osNative().dropPrivileges(uid, gid);
} else {
  osNative();
}
channel.send("ready");
program.main(channel);

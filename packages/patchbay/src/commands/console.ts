// SPDX-License-Identifier: Apache-2.0
// patchbay console: the serial console of a VM on this machine.
import type { Socket } from "node:net";
import { join } from "node:path";
import { stdin, stdout } from "node:process";
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { connectUnixSocket, createFiles } from "@patchbay/os";
import { joinTerminal } from "../terminal.ts";
import { argumentAt, type Context, type Input } from "../context.ts";
import { withSession } from "../session.ts";
import { findTarget } from "../target.ts";

function unreachable(vmi: string, reason: string): AppError {
  return new AppError("LAUNCHER_UNREACHABLE", { vmi, reason });
}

/** Where a pod's console is below the data directory. */
function socketPath(dataDir: string, podUid: string): string {
  const volume = ["volumes", "kubernetes.io~empty-dir", names.LAUNCHER_VOLUME];
  return join(dataDir, "pods", podUid, ...volume, names.CONSOLE_SOCKET);
}

/** The console of the pod of this VMI that is on this machine. */
async function findSocket(
  dataDir: string,
  vmi: VirtualMachineInstance,
  title: string,
): Promise<string> {
  const files = createFiles();
  const pods = Object.keys(vmi.status?.activePods ?? {}).sort();
  if (pods.length === 0) throw unreachable(title, "it has no pod yet");
  for (const uid of pods) {
    const path = socketPath(dataDir, uid);
    if (await files.exists(path)) return path;
  }
  const node = vmi.status?.nodeName ?? "unknown";
  const reason = `it runs on node ${node}, and there is no console of it below ${dataDir}; run this command there, or name the directory with --data-dir`;
  throw unreachable(title, reason);
}

async function openConsole(context: Context, input: Input): Promise<Socket> {
  const opened = Promise.withResolvers<Socket>();
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: false };
    const { kind, namespace, name, vmi } = await findTarget(session, query, context);
    const title = `${kind} ${namespace}/${name}`;
    if (vmi === undefined) throw unreachable(title, "it is not running");
    const path = await findSocket(context.global.dataDir, vmi, title);
    opened.resolve(await connectUnixSocket(path));
  });
  return opened.promise;
}

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const socket = await openConsole(context, input);
  if (stdin.isTTY) context.err.write("connected; leave with Ctrl-]\r\n");
  await joinTerminal({ input: stdin, output: stdout, socket }, context.signal);
}

// SPDX-License-Identifier: Apache-2.0
// Where on this machine is the serial console of a VM, and is it free?
import type { Socket } from "node:net";
import { join } from "node:path";
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import { connectUnixSocket, takeFileLock, type FileLock } from "@patchbay/os";
import type { Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { withTarget } from "../../target.ts";
import { loginHint } from "./login-hint.ts";

/** What is a name of one directory; nothing else is looked for below the directory of pods. */
const POD_UID = /^[0-9A-Za-z][0-9A-Za-z-]*$/;

/** Whose console, in words and in files. */
interface Guest {
  readonly title: string;
  readonly dataDir: string;
  readonly vmi: VirtualMachineInstance;
}

/** A console that is this process's alone, until the lock is released. */
export interface OpenConsole {
  readonly socket: Socket;
  readonly lock: FileLock;
  /** How to log in, one line for a person. */
  readonly hint: string;
}

type PodConsole = Omit<OpenConsole, "hint">;

function unreachable(vmi: string, reason: string): AppError {
  return new AppError("LAUNCHER_UNREACHABLE", { vmi, reason });
}

function notStarted(title: string): AppError {
  return unreachable(title, "its guest has not started yet");
}

/** The socket of that pod's console, or undefined when the pod is not on this machine. */
async function connectToPod({ dataDir, title }: Guest, uid: string): Promise<Socket | undefined> {
  const volume = [uid, names.EMPTY_DIR_VOLUMES, names.LAUNCHER_VOLUME];
  const path = [...volume, names.CONSOLE_SOCKET].join("/");
  try {
    return await connectUnixSocket({ directory: join(dataDir, "pods"), path });
  } catch (error) {
    const errno = isAppError(error) ? error.details["errno"] : undefined;
    if (errno === "ENOENT") return undefined;
    if (errno === "ECONNREFUSED") throw notStarted(title);
    throw error;
  }
}

/** QEMU takes one client at a time and lets the next one wait without a word. */
function takeConsole({ dataDir, title }: Guest, uid: string): FileLock {
  const outcome = takeFileLock(join(dataDir, "run", `console-${uid}.lock`));
  if ("release" in outcome) return outcome;
  throw new AppError("CONSOLE_IN_USE", { vmi: title, pid: outcome.heldBy });
}

async function openPod(guest: Guest, uid: string): Promise<PodConsole | undefined> {
  const socket = await connectToPod(guest, uid);
  if (socket === undefined) return undefined;
  try {
    return { socket, lock: takeConsole(guest, uid) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** The console of the pod of this VMI that is on this machine. */
async function openGuest(guest: Guest): Promise<PodConsole> {
  const { dataDir, title, vmi } = guest;
  const pods = Object.keys(vmi.status?.activePods ?? {}).filter((uid) => POD_UID.test(uid));
  if (pods.length === 0) throw unreachable(title, "it has no pod yet");
  for (const uid of pods.sort()) {
    const opened = await openPod(guest, uid);
    if (opened !== undefined) return opened;
  }
  if (vmi.status?.phase !== "Running") throw notStarted(title);
  const node = vmi.status.nodeName ?? "unknown";
  const reason = `it runs on node ${node}, and its console is not below ${dataDir}; run this command on that node, or name its directory with --data-dir`;
  throw unreachable(title, reason);
}

/**
 * The console of the VM that the first argument names.
 * @throws AppError with CONSOLE_IN_USE, LAUNCHER_UNREACHABLE
 */
export async function openConsole(context: Context, input: Input): Promise<OpenConsole> {
  const opened = Promise.withResolvers<OpenConsole>();
  await withTarget(context, input, async ({ kind, namespace, name, vmi }, session) => {
    const title = `${kind} ${namespace}/${name}`;
    if (vmi === undefined) throw unreachable(title, "it is not running");
    const hint = await loginHint(session.client.store, vmi);
    const found = await openGuest({ title, dataDir: context.global.dataDir, vmi });
    opened.resolve({ ...found, hint });
  });
  return opened.promise;
}

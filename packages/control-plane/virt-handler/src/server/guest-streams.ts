// SPDX-License-Identifier: Apache-2.0
// Serial consoles and screens of this node's guests. Each serves one client at a time, unless clients request to share a screen.
import type { Socket } from "node:net";
import { names } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import type { GuestStream, StreamRequest } from "@patchbay/core/guest";
import { printKey } from "@patchbay/kube";
import { connectUnixSocket } from "@patchbay/os";
import type { LauncherPod, ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { findGuest } from "./find-guest.ts";

/** Opens a stream to a guest on this node. The returned stream is paused until the caller reads it. */
export type OpenGuestStream = (key: ObjectKey, request: StreamRequest) => Promise<Socket>;

const SOCKETS: Readonly<Record<GuestStream, string>> = {
  console: names.CONSOLE_SOCKET,
  vnc: names.VNC_SOCKET,
};

/** Connects to a pod's socket without following symlinks that the pod created. */
export type ConnectToPod = (pod: LauncherPod, socket: string) => Promise<Socket>;

export function connectInPodsDir(podsDir: string): ConnectToPod {
  return ({ uid }, socket) => {
    const path = [uid, names.EMPTY_DIR_VOLUMES, names.LAUNCHER_VOLUME, socket].join("/");
    return connectUnixSocket({ directory: podsDir, path });
  };
}

function toUnreachable(key: ObjectKey, stream: GuestStream, cause: unknown): unknown {
  const errno = isAppError(cause) ? cause.details["errno"] : undefined;
  if (errno !== "ENOENT" && errno !== "ECONNREFUSED") return cause;
  const reason = `its guest has no ${stream}, or has not started yet`;
  return new AppError("LAUNCHER_UNREACHABLE", { vmi: printKey(key), reason }, { cause });
}

/** Connects an additional client to the screen. QEMU supports several clients of a screen. */
async function connectScreen(
  connect: ConnectToPod,
  { key, pod }: { readonly key: ObjectKey; readonly pod: LauncherPod },
): Promise<Socket> {
  try {
    const socket = await connect(pod, SOCKETS.vnc);
    socket.on("error", () => socket.destroy());
    return socket;
  } catch (error) {
    throw toUnreachable(key, "vnc", error);
  }
}

/**
 * Creates a function that opens a guest's stream. By default, the function disconnects the stream's current client. With `sharesScreen`,
 * both clients stay connected. With `preservesSession`, the function throws GUEST_STREAM_IN_USE if another client is connected. The
 * function also throws KUBE_NOT_FOUND, LAUNCHER_UNREACHABLE, and the errors of `sessions.use`.
 */
export function createOpenGuestStream(
  deps: Deps,
  connect: ConnectToPod,
  wake: (key: string) => void,
): OpenGuestStream {
  const openSockets = new Map<string, Socket>();
  return async (key, { stream, preservesSession, sharesScreen = false }) => {
    const { pod, listener } = findGuest(key, deps, wake);
    const slot = `${pod.uid} ${stream}`;
    // Opening the session verifies that the pod with the UID in the VMI's status is the VMI's launcher.
    await deps.sessions.use(pod, listener, () => Promise.resolve());
    if (sharesScreen) return connectScreen(connect, { key, pod });
    const current = openSockets.get(slot);
    if (current !== undefined && preservesSession) {
      throw new AppError("GUEST_STREAM_IN_USE", { vmi: printKey(key), stream });
    }
    current?.destroy();
    try {
      const socket = await connect(pod, SOCKETS[stream]);
      // Without this listener, an error before the caller adds its own listener would end the process.
      socket.on("error", () => socket.destroy());
      // Another client may have opened the stream while `connect` was pending.
      openSockets.get(slot)?.destroy();
      openSockets.set(slot, socket);
      socket.once("close", () => {
        if (openSockets.get(slot) === socket) openSockets.delete(slot);
      });
      return socket;
    } catch (error) {
      throw toUnreachable(key, stream, error);
    }
  };
}

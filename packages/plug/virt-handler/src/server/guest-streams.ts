// SPDX-License-Identifier: Apache-2.0
// The serial console and the screen of guests of this node: each is had by one at a time.
import type { Socket } from "node:net";
import { names } from "@patchbay/api";
import { AppError, isAppError, type GuestStream, type StreamRequest } from "@patchbay/core";
import { printKey } from "@patchbay/kube";
import { connectUnixSocket } from "@patchbay/os";
import type { LauncherPod, ObjectKey } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { findGuest } from "./find-guest.ts";

/** Opens a stream of a guest of this node; paused, until somebody reads it. */
export type OpenGuestStream = (key: ObjectKey, request: StreamRequest) => Promise<Socket>;

/** Below the launcher's volume. */
const SOCKETS: Readonly<Record<GuestStream, string>> = {
  console: names.CONSOLE_SOCKET,
  vnc: names.VNC_SOCKET,
};

/** How a pod's socket is reached, through no link that the pod has made. */
export type ConnectToPod = (pod: LauncherPod, socket: string) => Promise<Socket>;

/** By its directory below `podsDir`. */
export function connectBelow(podsDir: string): ConnectToPod {
  return ({ uid }, socket) => {
    const path = [uid, names.EMPTY_DIR_VOLUMES, names.LAUNCHER_VOLUME, socket].join("/");
    return connectUnixSocket({ directory: podsDir, path });
  };
}

function unreachable(key: ObjectKey, stream: GuestStream, cause: unknown): unknown {
  const errno = isAppError(cause) ? cause.details["errno"] : undefined;
  if (errno !== "ENOENT" && errno !== "ECONNREFUSED") return cause;
  const reason = `its guest has no ${stream}, or has not started yet`;
  return new AppError("LAUNCHER_UNREACHABLE", { vmi: printKey(key), reason }, { cause });
}

/** QEMU shows a screen to several at once. */
async function connectScreen(
  connect: ConnectToPod,
  { key, pod }: { readonly key: ObjectKey; readonly pod: LauncherPod },
): Promise<Socket> {
  try {
    const socket = await connect(pod, SOCKETS.vnc);
    socket.on("error", () => socket.destroy());
    return socket;
  } catch (error) {
    throw unreachable(key, "vnc", error);
  }
}

/**
 * Makes it. QEMU serves one client of a socket and lets the next one wait without a word: who has the stream loses it to
 * the next, or keeps it where that one says so.
 * @throws AppError with KUBE_NOT_FOUND, GUEST_STREAM_IN_USE, LAUNCHER_UNREACHABLE, and what a session throws, by what it
 *   gives
 */
export function createOpenGuestStream(
  deps: Deps,
  connect: ConnectToPod,
  wake: (key: string) => void,
): OpenGuestStream {
  const taken = new Map<string, Socket>();
  return async (key, { stream, preservesSession, isBeside = false }) => {
    const { pod, listener } = findGuest(key, deps, wake);
    const place = `${pod.uid} ${stream}`;
    // That the pod is the one which it says, its session has made sure of.
    await deps.sessions.use(pod, listener, () => Promise.resolve());
    if (isBeside) return connectScreen(connect, { key, pod });
    const before = taken.get(place);
    if (before !== undefined && preservesSession) {
      throw new AppError("GUEST_STREAM_IN_USE", { vmi: printKey(key), stream });
    }
    before?.destroy();
    try {
      const socket = await connect(pod, SOCKETS[stream]);
      // Whoever has it may not listen yet.
      socket.on("error", () => socket.destroy());
      // Two may have come at once.
      taken.get(place)?.destroy();
      taken.set(place, socket);
      socket.once("close", () => {
        if (taken.get(place) === socket) taken.delete(place);
      });
      return socket;
    } catch (error) {
      throw unreachable(key, stream, error);
    }
  };
}

// SPDX-License-Identifier: Apache-2.0
// Child process with the connections to untrusted libvirt daemons. Executes the requests of its parent.
import { createRequire } from "node:module";
import { messageOf } from "@patchbay/base";
import type { ChildChannel, HypervisorEvent, ClaimedDescriptor } from "@patchbay/core/interfaces";
import { OPEN_CALL, type Beat, type NativeError, type Reply, type Request } from "./protocol.ts";

/** Callback for notifications of the addon. No notification follows `ended`. */
type Notify = (kind: "event" | "lost" | "ended", value?: unknown) => void;

/** Connection with a separate thread, which executes calls in order. Calls reject with {@link NativeError}. */
interface NativeConnection {
  readonly opened: Promise<undefined>;
  call(operation: string, ...args: readonly string[]): Promise<unknown>;
  /** Closes the connection, which ends its thread and its running call. */
  close(): void;
}

/** Native addon for libvirt. libvirt's event loop runs in a separate thread until this process exits. */
interface LibvirtNative {
  /** `socketFd` is the socket that `uri` names as `/proc/self/fd/N`, or -1 if `uri` names no descriptor. */
  readonly Connection: new (uri: string, notify: Notify, socketFd: number) => NativeConnection;
  /** Returns the milliseconds since the last tick of libvirt's event loop, which ticks every second. */
  readonly eventLoopAgeMs: () => number;
}

// The addon in native/*.cc implements LibvirtNative. Only this file loads the addon.
const loadAddon = createRequire(import.meta.url) as (path: string) => LibvirtNative;

/** Loads the addon, which starts libvirt's event loop. */
function loadLibvirt(): LibvirtNative {
  return loadAddon("../build/libvirt.node");
}

// Loads the addon before the process drops its privileges, because the addon's file may be readable only by root.
const { Connection, eventLoopAgeMs } = loadLibvirt();

export function main(channel: ChildChannel): void {
  const connections = new Map<number, NativeConnection>();
  const reply = (message: Reply | Beat): void => {
    channel.send(message);
  };
  channel.onMessage((message) => {
    handle(message as Request, { channel, connections, reply }); // The message is not validated, because the child trusts its parent.
  });
}

interface Context {
  readonly channel: ChildChannel;
  readonly connections: Map<number, NativeConnection>;
  /** @throws AppError with OS_MESSAGE_TOO_LONG */
  readonly reply: (message: Reply | Beat) => void;
}

function handle(request: Request, context: Context): void {
  switch (request.kind) {
    case "open":
      open(request.connection, { uri: request.uri }, context);
      return;
    case "openSocket":
      openSocket(request.connection, context);
      return;
    case "call":
      void call(request, context);
      return;
    case "close":
      context.connections.get(request.connection)?.close();
      return;
    case "beat":
      context.reply({ kind: "beat", eventLoopAgeMs: eventLoopAgeMs() });
  }
}

interface Target {
  readonly uri: string;
  /** Socket of the daemon. Closed after the connection attempt. */
  readonly socket?: ClaimedDescriptor;
}

function openSocket(id: number, context: Context): void {
  const socket = context.channel.claimDescriptor(id);
  // `mode=direct` makes libvirt connect to this socket only.
  const uri = `qemu+unix:///session?mode=direct&socket=/proc/self/fd/${String(socket.fd)}`;
  open(id, { uri, socket }, context);
}

function open(id: number, target: Target, context: Context): void {
  connect(id, target, context)
    .then(
      () => {
        context.reply({ kind: "result", connection: id, call: OPEN_CALL });
      },
      (error: unknown) => {
        context.reply({
          kind: "failed",
          connection: id,
          call: OPEN_CALL,
          error: toNativeError(error),
        });
        const connection = context.connections.get(id);
        if (connection === undefined) context.reply({ kind: "ended", connection: id });
        else connection.close();
      },
    )
    .finally(() => {
      target.socket?.close();
    });
}

async function connect(id: number, target: Target, context: Context): Promise<void> {
  const socketFd = target.socket?.fd ?? -1;
  const connection = new Connection(target.uri, createNotify(id, context), socketFd);
  context.connections.set(id, connection);
  await connection.opened;
}

function createNotify(id: number, context: Context): Notify {
  return (kind, value) => {
    switch (kind) {
      case "event":
        // The event is not validated here, because the parent validates each event.
        context.reply({ kind, connection: id, event: value as HypervisorEvent });
        return;
      case "lost":
        context.reply({ kind, connection: id, reason: String(value) });
        return;
      case "ended":
        context.connections.get(id)?.close();
        context.connections.delete(id);
        context.reply({ kind, connection: id });
    }
  };
}

async function call(request: Extract<Request, { kind: "call" }>, context: Context): Promise<void> {
  const { connection, call: callNumber } = request;
  try {
    const value = await runCall(request, context);
    context.reply({ kind: "result", connection, call: callNumber, value });
  } catch (error) {
    // Also handles an error of `reply` above, which throws if the result is too long. The child continues.
    context.reply({ kind: "failed", connection, call: callNumber, error: toNativeError(error) });
  }
}

async function runCall(
  request: Extract<Request, { kind: "call" }>,
  context: Context,
): Promise<unknown> {
  const connection = context.connections.get(request.connection);
  if (connection === undefined) throw new Error("there is no such connection");
  return await connection.call(request.operation, ...request.arguments);
}

/** Converts an error to a plain object, because JSON.stringify omits the message of an Error. */
function toNativeError(error: unknown): NativeError {
  const message = messageOf(error);
  if (error instanceof Error && "number" in error && "domain" in error && "level" in error) {
    const { number, domain, level } = error;
    return { number: Number(number), domain: Number(domain), level: Number(level), message };
  }
  return { number: -1, domain: -1, level: -1, message };
}

// SPDX-License-Identifier: Apache-2.0
// What does a guest say, and what does it answer? Talks to the guest image of hack/guest over its serial console.
import type { Socket } from "node:net";
import { basename, dirname } from "node:path";
import { connectUnixSocket } from "@patchbay/os";
import { followGuestLog, type GuestLog } from "./guest-log.ts";

/** A command is sent again after this time without an answer; the guest ignores what it knows. */
const RESEND_MS = 2_000;
/** After so many times without an answer the console is connected anew: QEMU may have stopped sending to this client. */
const RECONNECT_EVERY = 4;

/** Where the console is. */
export interface GuestConsoleAddress {
  /** The serial port's unix socket. It takes one client at a time: connected at the first command. */
  readonly socketPath: string;
  /** The file with everything that was printed. */
  readonly logPath: string;
}

/** What a guest answered. */
export interface GuestAnswer {
  /** Exit code of the command in the guest. */
  readonly code: number;
  /** The lines of the answer, without the identifier. */
  readonly lines: readonly string[];
}

/** A guest's serial console. */
export interface GuestConsole extends Omit<GuestLog, typeof Symbol.dispose> {
  /**
   * Runs `address DEV CIDR`, `mtu DEV BYTES`, `tag DEV ID`, `ping IP COUNT INTERVAL_MS [BYTES]`, `report`, `driver on|off`,
   * `flood MIB`, `panic`, `poweroff` or `reboot`; several may run at once.
   */
  run(command: string, options?: { readonly timeoutMs?: number }): Promise<GuestAnswer>;
  /** Lets go of the console; the guest is not touched. */
  close(): void;
}

interface Sender {
  send(text: string): void;
  /** Lets go of the socket; the next text opens it again. */
  close(): void;
}

/** Sends text to a socket that may not be there yet or go away; text that cannot be sent is lost, and sent again later. */
function createSender(path: string): Sender {
  let opening: Promise<Socket> | undefined;
  const open = async (): Promise<Socket> => {
    const socket = await connectUnixSocket({ directory: dirname(path), path: basename(path) });
    // What is not read would stop the guest's output: QEMU waits for its client.
    socket.resume();
    return socket;
  };
  const connect = (): Promise<Socket> => {
    const connecting = open();
    const forget = (): void => {
      if (opening === connecting) opening = undefined;
    };
    connecting.then(
      (socket) => socket.on("error", forget).on("close", forget),
      () => undefined, // told by the write
    );
    return connecting;
  };
  const write = async (text: string): Promise<void> => {
    opening ??= connect();
    try {
      (await opening).write(text);
    } catch {
      opening = undefined; // not there yet
    }
  };
  return {
    send: (text) => {
      void write(text);
    },
    close: () => {
      void opening?.then((socket) => socket.destroy()).catch(() => undefined);
      opening = undefined;
    },
  };
}

/** Opens the console; nothing is connected before the first command. */
export function openGuestConsole(address: GuestConsoleAddress): GuestConsole {
  const log = followGuestLog(address.logPath);
  const sender = createSender(address.socketPath);
  const prefix = Date.now().toString(36);
  let commands = 0;

  const run = async (
    command: string,
    { timeoutMs = 30_000 }: { readonly timeoutMs?: number } = {},
  ): Promise<GuestAnswer> => {
    const id = `@${prefix}${String(++commands)} `;
    const since = log.position();
    let sent = 0;
    const send = (): void => {
      if (sent > 0 && sent % RECONNECT_EVERY === 0) sender.close();
      sent += 1;
      sender.send(`${id}${command}\n`);
    };
    const resend = setInterval(send, RESEND_MS);
    send();
    try {
      const last = await log.waitForLine(new RegExp(`^${id}done `), { timeoutMs, since });
      const answers = log.lines().slice(since);
      return {
        code: Number(last.slice(`${id}done `.length)),
        lines: answers
          .filter((line) => line.startsWith(id) && line !== last)
          .map((line) => line.slice(id.length).trimEnd()),
      };
    } finally {
      clearInterval(resend);
    }
  };
  return {
    lines: () => log.lines(),
    position: () => log.position(),
    waitForLine: (pattern, options) => log.waitForLine(pattern, options),
    run,
    close: () => {
      sender.close();
      log[Symbol.dispose]();
    },
  };
}

// SPDX-License-Identifier: Apache-2.0
// What does a guest say, and what does it answer? Talks to the guest image of hack/guest over its serial console.
import { basename, dirname } from "node:path";
import { connectUnixSocket } from "@patchbay/os";
import { followGuestLog, type GuestLog } from "./guest-log.ts";

/** A command is sent again after this time without an answer; the guest ignores what it knows. */
const RESEND_MS = 2_000;

/** Where the console is. */
export interface GuestConsoleAddress {
  /** The serial port's unix socket. It takes one client at a time: connected for each command. */
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
   * Runs `address DEV CIDR`, `count IP PORT`, `dirty MIB`, `mtu DEV BYTES`, `tag DEV ID`, `ping IP COUNT INTERVAL_MS [BYTES]`, `report`, `driver on|off`,
   * `flood MIB`, `heard DEV SECONDS`, `send DEV MAC COUNT BYTES`, `text LABEL PATH`, `panic`, `poweroff` or `reboot`; several may run at once.
   */
  run(command: string, options?: { readonly timeoutMs?: number }): Promise<GuestAnswer>;
  /** Ends following the log; the guest is not touched. */
  close(): void;
}

/**
 * Sends text to a socket that may not be there yet; text that cannot be sent is lost, and sent again later.
 * The connection is ended behind the text: a client that stays and does not read for a moment spoils the log. QEMU 7.2
 * writes a character to the log at each of its tries to send it, and gives up after some.
 */
async function sendText(path: string, text: string): Promise<void> {
  try {
    const socket = await connectUnixSocket({ directory: dirname(path), path: basename(path) });
    socket.on("error", () => undefined); // sent again later
    socket.resume(); // what is not read keeps the socket open
    socket.end(text);
  } catch {
    // not there yet
  }
}

/** Begins with this text, of which the log may have a character twice: it was written while somebody was connected. */
function repeatable(text: string): RegExp {
  return new RegExp(`^${text.replaceAll(/[^.]/g, "$&+").replaceAll(".", "\\.+")}`);
}

/** Opens the console; nothing is connected before the first command. */
export function openGuestConsole(address: GuestConsoleAddress): GuestConsole {
  const log = followGuestLog(address.logPath);
  const prefix = Date.now().toString(36);
  let commands = 0;

  const run = async (
    command: string,
    { timeoutMs = 30_000 }: { readonly timeoutMs?: number } = {},
  ): Promise<GuestAnswer> => {
    // No two of them differ by a repeated character alone.
    const id = `@${prefix}${String(++commands).replaceAll(/\B/g, ".")} `;
    const begins = repeatable(id);
    const since = log.position();
    const send = (): void => {
      void sendText(address.socketPath, `${id}${command}\n`);
    };
    const resend = setInterval(send, RESEND_MS);
    send();
    try {
      const last = await log.waitForLine(repeatable(`${id}done `), { timeoutMs, since });
      const answers = log.lines().slice(since);
      return {
        code: Number(last.trimEnd().split(" ").at(-1)),
        lines: answers
          .filter((line) => begins.test(line) && line !== last)
          .map((line) => line.replace(begins, "").trimEnd()),
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
      log[Symbol.dispose]();
    },
  };
}

// SPDX-License-Identifier: Apache-2.0
// Commands and responses on the serial console of a hack/guest image.
import { basename, dirname } from "node:path";
import { connectUnixSocket } from "@patchbay/os";
import { followGuestLog, type GuestLog } from "./guest-log.ts";

/** A command is repeated after this time without a response; the guest ignores duplicates. */
const RESEND_MS = 2_000;

export interface GuestConsoleAddress {
  /** The serial port's unix socket. It accepts one client at a time: connected per command. */
  readonly socketPath: string;
  /** The file with the whole console output. */
  readonly logPath: string;
}

export interface GuestAnswer {
  /** Exit code of the command in the guest. */
  readonly code: number;
  /** Lines of the response, without the identifier. */
  readonly lines: readonly string[];
}

export interface GuestConsole extends Omit<GuestLog, typeof Symbol.dispose> {
  /**
   * Runs `address DEV CIDR`, `count IP PORT`, `dirty MIB`, `mtu DEV BYTES`, `tag DEV ID`,
   * `ping IP COUNT INTERVAL_MS [BYTES]`, `report`, `driver on|off`, `flood MIB`, `heard DEV SECONDS`,
   * `send DEV MAC COUNT BYTES`, `text LABEL PATH`, `panic`, `poweroff` or `reboot`; several may run at once.
   */
  run(command: string, options?: { readonly timeoutMs?: number }): Promise<GuestAnswer>;
  /** Stops following the log without effect on the guest. */
  close(): void;
}

/**
 * Sends text to a socket that may not exist yet; lost text is repeated later. The connection closes after the text,
 * because a connected client that does not read corrupts the log: QEMU 7.2 logs a character at each attempt to send it,
 * and gives up after some.
 */
async function sendText(path: string, text: string): Promise<void> {
  try {
    const socket = await connectUnixSocket({ directory: dirname(path), path: basename(path) });
    socket.on("error", () => undefined); // repeated later
    socket.resume(); // unread data keeps the socket open
    socket.end(text);
  } catch {
    // not there yet
  }
}

/** Begins with this text, in which the log may repeat a character that was written while a client was connected. */
function repeatable(text: string): RegExp {
  return new RegExp(`^${text.replaceAll(/[^.]/g, "$&+").replaceAll(".", "\\.+")}`);
}

/** Opens the console without a connection before the first command. */
export function openGuestConsole(address: GuestConsoleAddress): GuestConsole {
  const log = followGuestLog(address.logPath);
  const prefix = Date.now().toString(36);
  let commands = 0;

  const run = async (
    command: string,
    { timeoutMs = 30_000 }: { readonly timeoutMs?: number } = {},
  ): Promise<GuestAnswer> => {
    // No two differ only by a repeated character.
    const id = `@${prefix}${String(++commands).replaceAll(/\B/g, ".")} `;
    const begins = repeatable(id);
    const since = log.position();
    const send = (): void => {
      void sendText(address.socketPath, `${id}${command}\n`);
    };
    const resend = setInterval(send, RESEND_MS);
    // Text that is sent while the guest prints can damage the printed line in the log.
    const begun = repeatable(`${id}begun`);
    const stopResending = (): void => {
      clearInterval(resend);
    };
    log.waitForLine(begun, { timeoutMs, since }).then(stopResending, stopResending);
    send();
    try {
      const last = await log.waitForLine(repeatable(`${id}done `), { timeoutMs, since });
      const answers = log.lines().slice(since);
      return {
        code: Number(last.trimEnd().split(" ").at(-1)),
        lines: answers
          .filter((line) => begins.test(line) && !begun.test(line) && line !== last)
          .map((line) => line.replace(begins, "").trimEnd()),
      };
    } finally {
      stopResending();
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

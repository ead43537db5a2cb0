// SPDX-License-Identifier: Apache-2.0
// patchbay console: the serial console of a VM on this machine.
import { stdin, stdout } from "node:process";
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { startRelay } = await import("@patchbay/os");
  const { openConsole } = await import("./open-console.ts");
  const { joinTerminal } = await import("./terminal.ts");
  const { socket, lock, hint } = await openConsole(context, input);
  try {
    if (stdin.isTTY) context.err.write(`connected; leave with Ctrl-]\n${hint}\n`);
    // The guest stops at a console that is connected and not read: a terminal may stop, the relay does not.
    const ends = { input: stdin, output: stdout, socket: startRelay(socket) };
    await joinTerminal(ends, context.signal);
  } finally {
    lock.release();
  }
}

/** One reader at a time; the guest never waits for it. */
export const guestConsole: Command = {
  name: "console",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Connect to the serial console of a VM on this machine; leave with Ctrl-]",
  flags: [],
  run,
};

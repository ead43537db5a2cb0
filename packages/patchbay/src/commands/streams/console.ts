// SPDX-License-Identifier: Apache-2.0
// patchbay console: the serial console of a VM, wherever it runs.
import { stdin, stdout } from "node:process";
import type { Command, Context } from "../../command.ts";
import { hasFlag, type Input } from "../../input.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../target.ts");
  const { loginHint } = await import("./login-hint.ts");
  const { openStream } = await import("./open-stream.ts");
  const { joinTerminal } = await import("./terminal.ts");
  await withTarget(context, input, async (target, session) => {
    const how = { what: ["console"], isTaken: hasFlag(input, "takeOver") };
    const stream = await openStream(session, target, how);
    if (stdin.isTTY && target.vmi !== undefined) {
      const hint = await loginHint(session.client.store, target.vmi);
      context.err.write(`connected; leave with Ctrl-]\n${hint}\n`);
    }
    await joinTerminal({ input: stdin, output: stdout, stream }, context.signal);
  });
}

/** One reader at a time; the guest never waits for it. */
export const guestConsole: Command = {
  name: "console",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Connect to the serial console of a VM; leave with Ctrl-]",
  flags: [
    {
      flags: "--take-over",
      description: "take over a console that is in use (default: fail)",
    },
  ],
  run,
};

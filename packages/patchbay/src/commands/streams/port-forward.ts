// SPDX-License-Identifier: Apache-2.0
// patchbay port-forward: ports of a VM's guest at local ones, in virtctl's form.
import { stdin, stdout } from "node:process";
import { finished } from "node:stream/promises";
import type { Command, Context } from "../../command.ts";
import { argumentAt, hasFlag, textOption, type Input } from "../../input.ts";

const HERE = "127.0.0.1";

async function run(context: Context, input: Input): Promise<void> {
  const { withNamedTarget } = await import("../../target.ts");
  const { parseGuestName } = await import("./guest-name.ts");
  const { assertRunning, openStream } = await import("./open-stream.ts");
  const { parsePorts } = await import("./ports.ts");
  const { servePorts } = await import("./serve-ports.ts");
  const ports = parsePorts(input.args.slice(1), hasFlag(input, "stdio"));
  const address = textOption(input, "address") ?? HERE;
  const guest = parseGuestName(argumentAt(input, 0));
  await withNamedTarget(context, guest, async (target, session) => {
    assertRunning(target);
    const open = (remote: number) =>
      openStream(session, target, { what: ["portforward", String(remote), "tcp"] });
    const [only] = ports;
    if (hasFlag(input, "stdio") && only !== undefined) {
      const stream = await open(only.remote);
      stdin.pipe(stream).pipe(stdout);
      await finished(stream, { writable: false }).catch(() => undefined); // its end is what matters
      stdin.destroy();
      stream.destroy();
      return;
    }
    const locals = ports.map(({ local, remote }) => ({
      port: local,
      address,
      open: () => open(remote),
    }));
    await servePorts(locals, context, (taken) => {
      for (const [index, port] of taken.entries()) {
        const remote = String(ports[index]?.remote ?? 0);
        context.out.write(`Forwarding from ${address}:${String(port)} -> ${remote}\n`);
      }
    });
  });
}

/** Connections end with the command. */
export const portForward: Command = {
  name: "port-forward",
  args: ["<vm>", "<port...>"],
  values: ["vms"],
  summary:
    "Forward local TCP ports to ports of vm/NAME[/NAMESPACE]: LOCAL:REMOTE, or one number for both",
  flags: [
    { flags: "--address <ip>", description: "local address (default: 127.0.0.1)" },
    { flags: "--stdio", description: "take one port, and forward standard input and output to it" },
  ],
  run,
};

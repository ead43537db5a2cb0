// SPDX-License-Identifier: Apache-2.0
// patchbay vnc: the screen of a VM, at a local port for a viewer.
import type { Command, Context } from "../../command.ts";
import { hasFlag, numberOption, textOption, type Input } from "../../input.ts";

const HERE = "127.0.0.1";

async function run(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../target.ts");
  const { assertRunning, openStream } = await import("./open-stream.ts");
  const { followGuestEnd } = await import("./guest-end.ts");
  const { servePorts } = await import("./serve-ports.ts");
  const address = textOption(input, "address") ?? HERE;
  await withTarget(context, input, async (target, session) => {
    assertRunning(target);
    const how = { what: ["vnc"], isTaken: hasFlag(input, "takeOver") };
    const open = () => openStream(session, target, how);
    const local = { port: numberOption(input, "port", 0), address, open };
    const guestEnd = followGuestEnd(session, target);
    const signal = AbortSignal.any([context.signal, guestEnd.signal]);
    try {
      await servePorts([local], { ...context, signal }, ([port = 0]) => {
        context.out.write(`vnc://${address}:${String(port)}\n`);
        context.err.write("open it with a VNC viewer; end with Ctrl-C\n");
      });
      guestEnd.signal.throwIfAborted();
    } finally {
      guestEnd.close();
    }
  });
}

/** One viewer at a time; fails when the guest ends. */
export const vnc: Command = {
  name: "vnc",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Forward a VM's screen to a local port, for a VNC viewer",
  flags: [
    { flags: "--port <port>", description: "local TCP port (default: a free one)", kind: "port" },
    { flags: "--address <ip>", description: "local address (default: 127.0.0.1)" },
    { flags: "--take-over", description: "take over a screen that is in use (default: fail)" },
  ],
  run,
};

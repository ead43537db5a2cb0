// SPDX-License-Identifier: Apache-2.0
// patchbay console, port-forward, vnc and capture.
import { stdin, stdout } from "node:process";
import type { Command, Context } from "../../command.ts";
import { hasFlag, type Input, argumentAt, textOption, numberOption } from "../../input.ts";
import { finished } from "node:stream/promises";

async function runConsole(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../session.ts");
  const { loginHint } = await import("./login-hint.ts");
  const { openStream } = await import("./open-stream.ts");
  const { joinTerminal } = await import("./terminal.ts");
  await withTarget(context, input, async (target, session) => {
    const options = { subresource: ["console"], takesOver: hasFlag(input, "takeOver") };
    const stream = await openStream(session, target, options);
    if (stdin.isTTY && target.vmi !== undefined) {
      const hint = await loginHint(session.client.store, target.vmi);
      context.err.write(`connected; leave with Ctrl-]\n${hint}\n`);
    }
    await joinTerminal({ input: stdin, output: stdout, stream }, context.signal);
  });
}

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
  run: runConsole,
};

const LOOPBACK = "127.0.0.1";

async function runPortForward(context: Context, input: Input): Promise<void> {
  const { withNamedTarget } = await import("../../session.ts");
  const { parseGuestName } = await import("./guest-name.ts");
  const { assertRunning, openStream } = await import("./open-stream.ts");
  const { parsePorts, servePorts } = await import("./serve-ports.ts");
  const ports = parsePorts(input.args.slice(1), hasFlag(input, "stdio"));
  const address = textOption(input, "address") ?? LOOPBACK;
  const guest = parseGuestName(argumentAt(input, 0));
  await withNamedTarget(context, guest, async (target, session) => {
    assertRunning(target);
    const open = (remote: number) =>
      openStream(session, target, { subresource: ["portforward", String(remote), "tcp"] });
    const [singlePair] = ports;
    if (hasFlag(input, "stdio") && singlePair !== undefined) {
      const stream = await open(singlePair.remote);
      stdin.pipe(stream).pipe(stdout);
      await finished(stream, { writable: false }).catch(() => undefined);
      stdin.destroy();
      stream.destroy();
      return;
    }
    const locals = ports.map(({ local, remote }) => ({
      port: local,
      address,
      open: () => open(remote),
    }));
    await servePorts(locals, context, (localPorts) => {
      for (const [index, port] of localPorts.entries()) {
        const remote = String(ports[index]?.remote ?? 0);
        context.out.write(`Forwarding from ${address}:${String(port)} -> ${remote}\n`);
      }
    });
  });
}

/** Forwards local ports until the user interrupts the command. With --stdio, connects standard input and output to a single port. */
export const portForward: Command = {
  name: "port-forward",
  args: ["<vm>", "<port...>"],
  values: ["vms"],
  summary:
    "Forward local TCP ports to ports of vm/NAME[/NAMESPACE]: LOCAL:REMOTE, or one number for both",
  flags: [
    { flags: "--address <ip>", description: "local address (default: 127.0.0.1)" },
    { flags: "--stdio", description: "forward standard input and output to a single port" },
  ],
  run: runPortForward,
};

async function runVnc(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../session.ts");
  const { assertRunning, followGuestEnd, openStream } = await import("./open-stream.ts");
  const { servePorts } = await import("./serve-ports.ts");
  const address = textOption(input, "address") ?? LOOPBACK;
  await withTarget(context, input, async (target, session) => {
    assertRunning(target);
    const options = { subresource: ["vnc"], takesOver: hasFlag(input, "takeOver") };
    const open = () => openStream(session, target, options);
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
  run: runVnc,
};

export const capture: Command = {
  name: "capture",
  args: ["<vm>", "<interface>", "[filter...]"],
  values: ["vms", "interfaces"],
  summary:
    "Capture packets of a VM's interface as pcap; FILTER: see pcap-filter(7). an event of the VM records the user",
  flags: [
    {
      flags: "-w, --write <file>",
      description: "write the packets to this new file",
      values: "files",
    },
    {
      flags: "--duration <duration>",
      description: "how long, at most 1h",
      kind: "duration",
      fallback: "60s",
    },
    {
      flags: "--bytes <amount>",
      description: "how much, at most 1Gi",
      kind: "quantity",
      fallback: "16Mi",
    },
  ],
  run: async (context, input) => {
    const { requestCapture } = await import("./request-capture.ts");
    await requestCapture(context, input);
  },
};

// SPDX-License-Identifier: Apache-2.0
// The commands `patchbay console`, `vnc` and `port-forward` with an API server over a real connection.
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConsoleMachine, type CommandProcess, type Visit } from "./machine.ts";

let machine: ConsoleMachine;
beforeEach(async () => {
  machine = await ConsoleMachine.start();
});
afterEach(async () => {
  await machine[Symbol.asyncDispose]();
});

const TIMEOUT = { withinMs: 20_000 };

function firstVisit(): Promise<Visit> {
  return eventually(() => machine.visits[0], TIMEOUT);
}

async function heardBy({ socket }: Visit): Promise<string> {
  const [text] = (await once(socket, "message")) as [Buffer];
  return String(text);
}

/** The first line of a command's output. */
async function firstLine({ child }: CommandProcess): Promise<string> {
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return line;
}

test("a console sends input to the guest and shows its output", async () => {
  const console = machine.run("console", "vm");
  const visit = await firstVisit();
  expect(visit.what).toBe("console?preserveSession=true");
  visit.socket.send("login: ");
  const [prompt] = (await once(console.child.stdout, "data")) as [Buffer];
  expect(String(prompt)).toBe("login: ");
  const typed = heardBy(visit);
  console.child.stdin.end("root\n");
  expect(await typed).toBe("root\n");
  expect(await console.ended).toEqual({ code: 0, err: "" });
});

test("reports a console in use and offers to take it over", async () => {
  machine.isInUse = true;
  const { code, err } = await machine.run("console", "vm").ended;
  expect(code).toBe(4);
  expect(err).toContain("the console of default/vm is in use");
  const console = machine.run("console", "vm", "--take-over");
  expect((await firstVisit()).what).toBe("console");
  console.child.stdin.end();
  expect((await console.ended).code).toBe(0);
});

test("a console ends when the guest closes it", async () => {
  const console = machine.run("console", "vm");
  (await firstVisit()).socket.close();
  expect(await console.ended).toEqual({ code: 0, err: "" });
});

test("a screen is available at a local port until Ctrl-C", async () => {
  const viewer = machine.run("vnc", "vm");
  const { port } = new URL(await firstLine(viewer));
  const socket = connect({ host: "127.0.0.1", port: Number(port) });
  const visit = await firstVisit();
  expect(visit.what).toBe("vnc?preserveSession=true");
  visit.socket.send("RFB 003.008\n");
  expect(String((await once(socket, "data"))[0])).toBe("RFB 003.008\n");
  socket.destroy();
  await once(visit.socket, "close");
  viewer.child.kill("SIGINT");
  expect((await viewer.ended).code).toBe(0);
});

test("opens a new port-forward for each connection", async () => {
  const forward = machine.run("port-forward", "vm", "0:22");
  const [, port] = /127\.0\.0\.1:(\d+) -> 22$/.exec(await firstLine(forward)) ?? [];
  for (const index of [0, 1]) {
    const socket = connect({ host: "127.0.0.1", port: Number(port) });
    const visit = await eventually(() => machine.visits[index], TIMEOUT);
    expect(visit.what).toBe("portforward/22/tcp");
    const received = heardBy(visit);
    socket.write("SSH-2.0-x\n");
    expect(await received).toBe("SSH-2.0-x\n");
    visit.socket.close();
    await once(socket, "close");
  }
});

test("stdin and stdout carry a port for ssh's ProxyCommand", async () => {
  const piped = machine.run("port-forward", "--stdio", "vm", "22");
  const visit = await firstVisit();
  visit.socket.send("SSH-2.0-y\n");
  expect(String((await once(piped.child.stdout, "data"))[0])).toBe("SSH-2.0-y\n");
  const received = heardBy(visit);
  piped.child.stdin.write("SSH-2.0-x\n");
  expect(await received).toBe("SSH-2.0-x\n");
  visit.socket.close();
  expect((await piped.ended).code).toBe(0);
});

test("names an invalid port before any request", async () => {
  const { code, err } = await machine.run("port-forward", "vm", "22", "udp/53", "0").ended;
  expect([code, err.includes("udp/53, 0: a port is")]).toEqual([2, true]);
});

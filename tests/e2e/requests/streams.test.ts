// SPDX-License-Identifier: Apache-2.0
// Console, screen and port of a running guest, through the API server, virt-api and virt-handler.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually } from "@patchbay/support";
import { readScreen } from "../../../packages/control-plane/virt-api/src/screen/rfb.ts";
import { PngEncoder } from "../../../packages/control-plane/virt-api/src/screen/worker.ts";
import { afterEach, expect, test } from "vitest";
import { CHANGE_MS, guestNic, ifaceStatus, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

const VM = "alpha";
const TIMEOUT = { withinMs: CHANGE_MS };
const PORT = "8080";
/** The screen as a user sees it. */
const PICTURE = join(ROOT, ".cache/screen-of-a-guest.png");

let command: ChildProcess | undefined;

afterEach(async () => {
  if (command === undefined || command.exitCode !== null) return;
  const ended = once(command, "exit");
  command.kill("SIGINT");
  await ended;
});

/** The local port on a command's first line. */
async function portOf(...args: readonly string[]): Promise<number> {
  const all = ["--data-dir", machine.dataDir, ...args];
  const child = spawn(join(ROOT, "node_modules/.bin/patchbay"), all, {
    env: { ...process.env, KUBECONFIG: join(machine.dataDir, "kubeconfig") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  command = child;
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return Number(/127\.0\.0\.1:(\d+)/.exec(line)?.[1]);
}

test("console input reaches the guest, and its reply is shown", async () => {
  let tries = 0;
  await eventually(() => {
    tries += 1;
    const argv = ["patchbay", "--data-dir", machine.dataDir, "console", VM] as const;
    const { code, stdout, stderr } = machine.try([...argv], `\n@stream${String(tries)} disks\n`);
    if (code !== 0) throw new Error(stderr);
    if (!stdout.includes(`@stream${String(tries)} done 0`))
      throw new Error(`it said ${stdout}${stderr}`);
    return true;
  }, TIMEOUT);
});

test("a sidecar container's log has the guest's console, and kubectl uses it by default", async () => {
  const { name = "" } = machine.findPod(VM)?.metadata ?? {};
  const logOf = (...args: readonly string[]): string => machine.kubectl("logs", name, ...args);
  const log = await eventually(() => {
    const output = logOf("-c", "guest-console-log");
    return output.includes("guest ready") ? output : undefined;
  }, TIMEOUT);
  expect(log).toMatch(/^nic added /m);
  expect(logOf()).not.toContain("guest ready");
});

test("a viewer sees the guest's screen", async () => {
  const port = await portOf("vnc", VM);
  const socket = connect({ host: "127.0.0.1", port });
  const colours = new Set<number>();
  const { size, png } = await readScreen(socket, (screenSize) => {
    const encoder = new PngEncoder(screenSize);
    return {
      size: screenSize,
      png: encoder,
      write: (row: number, column: number, pixels: Buffer): void => {
        encoder.write(row, column, pixels);
        for (let at = 0; at < pixels.length; at += 4) colours.add(pixels.readUInt32LE(at));
      },
    };
  });
  socket.destroy();
  writeFileSync(PICTURE, png.finish());
  const { width, height } = size;
  process.stdout.write(`a screen of ${String(width)} by ${String(height)}: ${PICTURE}\n`);
  expect(Math.min(width, height)).toBeGreaterThanOrEqual(200);
  // Firmware or kernel has drawn on it.
  expect(colours.size).toBeGreaterThan(1);
});

test("takes a screenshot through the API while a viewer is connected", async () => {
  const port = await portOf("vnc", VM);
  const viewer = connect({ host: "127.0.0.1", port });
  await readScreen(viewer, () => ({ write: () => undefined }));
  const picture = join(machine.dataDir, "screen.png");
  const path = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/${VM}/vnc/screenshot`;
  machine.try(["sh", "-c", `kubectl get --raw "${path}?moveCursor=true" >"${picture}"`]);
  const file = readFileSync(picture);
  expect(file.subarray(1, 4).toString()).toBe("PNG");
  expect(Math.min(file.readUInt32BE(16), file.readUInt32BE(20))).toBeGreaterThanOrEqual(200);
  expect(viewer.destroyed).toBe(false);
  viewer.destroy();
});

test("forwards a port of the guest to a local one", async () => {
  const nic = await guestNic(VM, ifaceStatus(VM, "default")?.mac ?? "");
  for (const order of [`lease ${nic}`, `serve ${PORT}`]) {
    const { code, lines } = await machine.console(VM).run(order, { timeoutMs: CHANGE_MS });
    if (code !== 0) throw new Error(lines.join("\n"));
  }
  const port = await portOf("port-forward", VM, `0:${PORT}`);
  const text = await eventually(async () => {
    const answer = await fetch(`http://127.0.0.1:${String(port)}/`);
    return answer.ok && (await answer.text());
  }, TIMEOUT);
  expect(text).toContain(ifaceStatus(VM, "default")?.mac);
});

test("a packet capture is readable by tcpdump, and an event names the user", async () => {
  const nic = await guestNic(VM, ifaceStatus(VM, "default")?.mac ?? "");
  const file = join(machine.dataDir, "alpha.pcap");
  const flags = ["-w", file, "--duration", "60s", "--bytes", "2Ki"];
  const all = [
    "--data-dir",
    machine.dataDir,
    "capture",
    VM,
    "default",
    "udp",
    "port",
    "67",
    ...flags,
  ];
  const child = spawn(join(ROOT, "node_modules/.bin/patchbay"), all, { stdio: "ignore" });
  command = child;
  const ended = once(child, "exit");
  const reported = `captures the packets of "udp port 67" of interface default`;
  const isReported = (): boolean =>
    machine.events().some(({ message }) => message.includes(reported));
  await eventually(isReported, TIMEOUT);
  // Each requests its address again until the capture is full.
  await eventually(async () => {
    await machine.console(VM).run(`lease ${nic}`, { timeoutMs: CHANGE_MS });
    return child.exitCode !== null;
  }, TIMEOUT);
  expect(await ended).toEqual([0, null]);
  const { stdout } = machine.try(["tcpdump", "-nr", file]);
  expect(stdout).toMatch(/BOOTP\/DHCP, Request from/);
});

test("an invalid filter is reported with tcpdump's message and leaves no file", () => {
  const file = join(machine.dataDir, "none.pcap");
  const { code, stderr } = machine.try([
    "patchbay",
    "--data-dir",
    machine.dataDir,
    "capture",
    VM,
    "default",
    "tcp",
    "prt",
    "-w",
    file,
  ]);
  expect(code).not.toBe(0);
  expect(stderr).toContain("syntax error");
  expect(existsSync(file)).toBe(false);
});

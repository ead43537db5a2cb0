// SPDX-License-Identifier: Apache-2.0
// A node NIC is unchanged after the real plugin host-device moved it into a pod and back. The host is the test's own
// network namespace.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readlinkSync } from "node:fs";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

/** Five failed removals with their pauses. */
const TIMEOUT = { withinMs: 60_000 };
const NAMESPACE = "default";
const POD = { namespace: NAMESPACE, name: "borrower" };
const MAC = "02:00:00:00:9d:01";
const STUBBORN = `config=$(cat)
case "$CNI_COMMAND $config" in
DEL*'"name":"stubborn"'*)
  echo '{"cniVersion":"1.0.0","code":999,"msg":"it will not"}'
  exit 1
  ;;
esac
printf %s "$config" | exec /usr/lib/cni/host-device`;

let host: ChildProcess;
let machine: AgentMachine;

function ip(...words: readonly string[]): string {
  return run("nsenter", `--net=/proc/${String(host.pid)}/ns/net`, "ip", ...words);
}

/** iproute2's output for the NIC, without elapsed seconds, its peer and the peer's state. */
function look(): readonly string[] {
  return [
    ip("addr", "show", "dev", "card0").replaceAll(/^\d{1,9}: |@\S{1,20}|link-netns \S{1,40}/gm, ""),
    ip("-4", "route", "show", "table", "main"),
    ip("-6", "route", "show", "table", "main"),
  ]
    .flatMap((text) => text.split("\n"))
    .filter((line) => !line.includes("fe80::"));
}

function hasCard(): boolean {
  return ip("-o", "link", "show").includes("card0:") || ip("-o", "link").includes("card0@");
}

beforeAll(async () => {
  host = spawn("unshare", ["--net", "sleep", "infinity"], { stdio: "ignore" });
  await once(host, "spawn");
  const own = readlinkSync("/proc/self/ns/net");
  await eventually(
    () => readlinkSync(`/proc/${String(host.pid)}/ns/net`) !== own || undefined,
    TIMEOUT,
  );
  machine = await AgentMachine.start(undefined, { hostProcess: host.pid });
  await machine.putNad(NAMESPACE, "card", [{ type: "host-device", device: "card0" }]);
  // Found before the real plugin, which it calls; for one network its DEL always fails.
  machine.node.addPlugin("host-device", STUBBORN);
  ip("link", "set", "lo", "up");
});

afterAll(async () => {
  await machine.close();
  host.kill("SIGKILL");
});

beforeEach(() => {
  if (hasCard()) ip("link", "delete", "card0");
  ip("link", "add", "card0", "address", MAC, "type", "veth", "peer", "name", "card0x");
  for (const end of ["card0", "card0x"]) ip("link", "set", end, "mtu", "1400", "up");
  ip("addr", "add", "10.9.1.2/24", "dev", "card0");
  ip("addr", "add", "10.9.1.3/24", "dev", "card0");
  ip("addr", "add", "fd09:1::2/64", "dev", "card0", "nodad");
  ip("route", "add", "default", "via", "10.9.1.1", "metric", "5");
  ip("-6", "route", "add", "default", "via", "fd09:1::1");
  ip("route", "add", "192.0.2.0/24", "dev", "card0");
});

async function borrow(network = "card") {
  const sandbox = await machine.runPod({ ...POD, networks: network });
  await eventually(() => machine.node.nics(sandbox).includes("net1") || undefined, TIMEOUT);
  await eventually(
    async () => (await machine.networkStatus(NAMESPACE, POD.name)).length > 0 || undefined,
    TIMEOUT,
  );
  expect(ip("-o", "link", "show")).not.toMatch(/ card0[@:]/);
  return sandbox;
}

async function expectAsBefore(before: readonly string[]): Promise<void> {
  await eventually(() => hasCard() || undefined, TIMEOUT);
  await expect.poll(look, { timeout: TIMEOUT.withinMs }).toEqual(before);
}

test("an unplug returns the device, whatever the guest has changed", async () => {
  const before = look();
  const sandbox = await borrow();
  for (const words of ["down", "address 02:00:00:00:9d:99 mtu 1300", "up"]) {
    run("ip", "-n", sandbox.id, "link", "set", "net1", ...words.split(" "));
  }
  await machine.ask(NAMESPACE, POD.name, "");
  await expectAsBefore(before);
  await machine.removePod(POD, sandbox);
});

test("the end of a pod returns the device, although the namespace is deleted and the kernel renamed it", async () => {
  const before = look();
  const sandbox = await borrow();
  // The kernel moves hardware NICs back; it deletes other kinds with their namespace.
  const nic = ["-n", sandbox.id, "link", "set"];
  run("ip", ...nic, "net1", "down");
  run("ip", ...nic, "net1", "name", "dev7");
  run("ip", ...nic, "dev7", "netns", String(host.pid));
  await machine.removePod(POD, sandbox);
  await expectAsBefore(before);
  expect(ip("-o", "link")).not.toContain("dev7");
});

test("a forced removal returns the device after repeated plugin failures", async () => {
  await machine.putNad(NAMESPACE, "stubborn", [{ type: "host-device", device: "card0" }]);
  const before = look();
  const sandbox = await borrow("stubborn");
  await machine.ask(NAMESPACE, POD.name, "");
  await expectAsBefore(before);
  expect(machine.node.nics(sandbox)).toEqual([]);
  await machine.removePod(POD, sandbox);
});

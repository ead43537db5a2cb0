// SPDX-License-Identifier: Apache-2.0
// NetworkPolicies restrict a guest: directly and through a Service, while it runs, and from its start.
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, guestNic, ifaceStatus, machine } from "../machine.ts";

const [VM, CLIENT] = ["alpha", "beta"];
const TIMEOUT = { withinMs: CHANGE_MS };
const PORT = 8092;
const [SERVICE, POLICY] = ["restricted", "restrict-alpha"];
const NAME_LABEL = "vm.kubevirt.io/name";

async function inGuest(vm: string, command: string): Promise<void> {
  await eventually(async () => {
    const { code } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
    return code === 0;
  }, TIMEOUT);
}

/** Whether the guest receives a response of another guest, whose first line contains the MAC of its loopback link. */
async function fetches(vm: string, address: string, port: number): Promise<boolean> {
  const command = `fetch ${address} ${String(port)}`;
  const { lines } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
  return lines.join("\n").includes("fetched 00:00:00:00:00:00");
}

function podIp(vm: string): string {
  return machine.findPod(vm)?.status?.podIP ?? "";
}

function clusterIp(): string {
  const path = `/api/v1/namespaces/default/services/${SERVICE}`;
  // The server's version of our object.
  return (machine.read(path) as { readonly spec: { readonly clusterIP: string } }).spec.clusterIP;
}

/** Whether the client reaches the guest directly, and through the Service. */
async function reach(): Promise<readonly boolean[]> {
  return [await fetches(CLIENT, podIp(VM), PORT), await fetches(CLIENT, clusterIp(), 80)];
}

async function expectReach(isOpen: boolean): Promise<void> {
  await eventually(async () => (await reach()).every((each) => each === isOpen), TIMEOUT);
}

async function isReachedFromNode(): Promise<boolean> {
  const url = `http://${podIp(VM)}:${String(PORT)}/`;
  return fetch(url, { signal: AbortSignal.timeout(CHANGE_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

function restrict(ingress: readonly object[]): void {
  machine.apply({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: POLICY, namespace: "default" },
    spec: { podSelector: { matchLabels: { [NAME_LABEL]: VM } }, ingress },
  });
}

const FROM_CLIENT = { from: [{ podSelector: { matchLabels: { [NAME_LABEL]: CLIENT } } }] };

beforeAll(async () => {
  for (const vm of [VM, CLIENT]) {
    const own = ifaceStatus(vm, "default")?.mac ?? "";
    await inGuest(vm, `lease ${await guestNic(vm, own)}`);
    await inGuest(vm, `serve ${String(PORT)}`);
  }
  const options = ["--port", "80", "--target-port", String(PORT)];
  machine.patchbay("expose", "vm", VM, "--name", SERVICE, ...options);
  await expectReach(true);
});

afterEach(() => {
  machine.deleteIfPresent("networkpolicy", POLICY);
});

afterAll(() => {
  machine.deleteIfPresent("service", SERVICE);
});

test("an isolated guest is reachable from its node only, and still reaches others", async () => {
  restrict([]);
  await expectReach(false);
  expect(await isReachedFromNode()).toBe(true);
  expect(await fetches(VM, podIp(CLIENT), PORT)).toBe(true);
  machine.delete("networkpolicy", POLICY);
  await expectReach(true);
});

test("a rule for the client's labels and the port lets it in", async () => {
  restrict([]);
  await expectReach(false);
  restrict([{ ...FROM_CLIENT, ports: [{ port: PORT }] }]);
  await expectReach(true);
  restrict([{ ...FROM_CLIENT, ports: [{ port: PORT + 1 }] }]);
  await expectReach(false);
});

test("a policy survives a crash of virt-handler", async () => {
  restrict([]);
  await expectReach(false);
  const pid = machine.pidOf("virt-handler");
  process.kill(pid, "SIGKILL");
  expect(await reach()).toEqual([false, false]);
  await eventually(() => machine.pidOf("virt-handler") !== pid, TIMEOUT);
  restrict([FROM_CLIENT]);
  await expectReach(true);
});

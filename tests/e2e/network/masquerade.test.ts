// SPDX-License-Identifier: Apache-2.0
// A guest with masquerade: it reaches outside hosts and is reachable at its forwarded port, also after a reboot and
// after virt-handler was killed.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectReady, guestNic, ifaceStatus, machine } from "../machine.ts";

const VM = "hidden";
const PORT = 8080;
/** Not forwarded. */
const OTHER_PORT = 8081;
/** KubeVirt's address of a masqueraded guest. Source: KubeVirt API, `vmNetworkCIDR` */
const GUEST = { address: "10.0.2.2/24", gateway: "10.0.2.1" };

/** An outside host that answers with the client's address. */
let server: Server;

async function ask(command: string): Promise<string> {
  return eventually(
    async () => {
      const { code, lines } = await machine.console(VM).run(command, { timeoutMs: CHANGE_MS });
      return code === 0 ? lines.join("\n") : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

/** The pod's address, and the node's on its network. */
function addresses(): { readonly pod: string; readonly node: string } {
  const pod = machine.findPod(VM)?.status?.podIP ?? "";
  return { pod, node: pod.replace(/(?<!\d)\d+$/, "1") };
}

/** The guest's reply to the node; undefined without one. */
async function askedFromNode(port: number): Promise<string | undefined> {
  const url = `http://${addresses().pod}:${String(port)}/`;
  return fetch(url, { signal: AbortSignal.timeout(CHANGE_MS) }).then(
    (answer) => answer.text(),
    () => undefined,
  );
}

async function booted(since?: number): Promise<void> {
  await machine.booted(VM, since);
  for (const port of [PORT, OTHER_PORT]) await ask(`serve ${String(port)}`);
}

async function expectBehindPod(): Promise<void> {
  const { mac = "" } = await expectReady(VM, "default");
  const lease = await ask(`lease ${await guestNic(VM, mac)}`);
  expect(lease).toContain(`lease ${GUEST.address} mtu 1500 routes 0.0.0.0/0 ${GUEST.gateway} `);
  const { pod, node } = addresses();
  expect(ifaceStatus(VM, "default")?.ipAddress).toBe(pod);
  expect(await ask(`fetch ${node} ${String(PORT)}`)).toContain(`fetched ${pod}`);
  expect(await askedFromNode(PORT)).toContain(mac);
  expect(await askedFromNode(OTHER_PORT)).toBeUndefined();
}

beforeAll(async () => {
  const nic = { name: "default", binding: "masquerade", ports: [{ port: PORT }] } as const;
  machine.apply(vmManifest({ name: VM, nics: [nic], pcieRootPorts: FEW_PORTS }));
  await booted();
  server = createServer(({ socket }, answer) => answer.end(socket.remoteAddress));
  server.listen(PORT, addresses().node);
  await once(server, "listening");
});

afterAll(() => {
  server.close();
  machine.delete("vm", VM);
});

test("the guest has a private address, and other hosts see the pod's address", async () => {
  await expectBehindPod();
});

test("the addresses are the same after the guest has rebooted", async () => {
  const since = machine.console(VM).position();
  await machine.console(VM).run("reboot");
  await booted(since);
  await expectBehindPod();
});

test("the addresses are the same after virt-handler was killed", async () => {
  const pid = machine.pidOf("virt-handler");
  process.kill(pid, "SIGKILL");
  await eventually(() => machine.pidOf("virt-handler") !== pid, { withinMs: CHANGE_MS });
  await expectBehindPod();
});

// SPDX-License-Identifier: Apache-2.0
// MultiNetworkPolicies restrict a guest on one secondary network while it runs.
import { execFileSync } from "node:child_process";
import { isEqual } from "@patchbay/base";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  removeInterface,
} from "../machine.ts";

const [VM, NETWORK, OTHER, POLICY] = ["walled", "walled", "open", "restrict-walled"];
const [CLIENT, CLIENT_NIC] = ["beta", "peer"];
const TIMEOUT = { withinMs: CHANGE_MS };
const FETCH_MS = 5_000;
const PORT = 8093;
const NAME_LABEL = "vm.kubevirt.io/name";

interface TestNetwork {
  readonly name: string;
  readonly nic: string;
  readonly bridge: string;
  readonly subnet: string;
  /** The node's address on the network. */
  readonly gateway: string;
}

const NETWORKS: readonly TestNetwork[] = [
  { name: NETWORK, nic: "one", bridge: "pbt-wall", subnet: "10.77.10.0/24", gateway: "10.77.10.1" },
  { name: OTHER, nic: "two", bridge: "pbt-open", subnet: "10.77.11.0/24", gateway: "10.77.11.1" },
];

async function inGuest(vm: string, command: string): Promise<void> {
  await eventually(async () => {
    const { code } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
    return code === 0;
  }, TIMEOUT);
}

async function lease(vm: string, nic: string): Promise<void> {
  const { mac = "" } = await expectReady(vm, nic);
  await inGuest(vm, `lease ${await guestNic(vm, mac)}`);
}

/** Whether the node reaches the guest on each network. */
function reach(): Promise<readonly boolean[]> {
  return Promise.all(
    NETWORKS.map(({ nic }) => {
      const url = `http://${ifaceStatus(VM, nic)?.ipAddress ?? ""}:${String(PORT)}/`;
      return fetch(url, { signal: AbortSignal.timeout(FETCH_MS) }).then(
        ({ ok }) => ok,
        () => false,
      );
    }),
  );
}

async function expectReach(...want: readonly boolean[]): Promise<void> {
  await eventually(async () => isEqual(await reach(), want), TIMEOUT);
}

/** Waits until the client reaches the guest on the restricted network, or does not. */
async function expectClient(reaches: boolean): Promise<void> {
  const command = `fetch ${ifaceStatus(VM, "one")?.ipAddress ?? ""} ${String(PORT)}`;
  await eventually(async () => {
    const { lines } = await machine.console(CLIENT).run(command, { timeoutMs: CHANGE_MS });
    return lines.join("\n").includes("fetched 00:00:00:00:00:00") === reaches;
  }, TIMEOUT);
}

function restrict(networks: string, ingress: readonly object[]): void {
  machine.apply({
    apiVersion: "k8s.cni.cncf.io/v1beta1",
    kind: "MultiNetworkPolicy",
    metadata: {
      name: POLICY,
      namespace: "default",
      annotations: { "k8s.v1.cni.cncf.io/policy-for": networks },
    },
    spec: { podSelector: { matchLabels: { [NAME_LABEL]: VM } }, ingress },
  });
}

beforeAll(async () => {
  for (const { name, bridge, subnet } of NETWORKS) {
    const plugin = {
      type: "bridge",
      bridge,
      isGateway: true,
      ipam: { type: "host-local", subnet },
    };
    machine.apply({
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name, namespace: "default" },
      spec: { config: JSON.stringify({ cniVersion: "0.4.0", name: bridge, ...plugin }) },
    });
  }
  const nics = NETWORKS.map(({ nic, name }) => ({ name: nic, network: name }));
  machine.apply(vmManifest({ name: VM, nics, pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
  for (const { nic } of NETWORKS) await lease(VM, nic);
  await inGuest(VM, `serve ${String(PORT)}`);
  await expectReach(true, true);
});

afterEach(() => {
  machine.deleteIfPresent("multi-networkpolicy", POLICY);
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  for (const { name, bridge } of NETWORKS) {
    machine.deleteIfPresent("net-attach-def", name);
    execFileSync("ip", ["link", "del", bridge]);
  }
});

test("a policy isolates the guest on its network only, and ends with its deletion", async () => {
  restrict(NETWORK, []);
  await expectReach(false, true);
  restrict(OTHER, []);
  await expectReach(true, false);
  machine.delete("multi-networkpolicy", POLICY);
  await expectReach(true, true);
});

test("a block lets the node in, and a rule without peers is reported", async () => {
  restrict(NETWORK, [{ from: [{ podSelector: { matchLabels: { app: "none" } } }] }]);
  await expectReach(false, true);
  const isReported = () =>
    machine
      .events()
      .some(
        ({ reason, involvedObject }) =>
          reason === "NetworkPolicyWithoutPeers" && involvedObject.name === VM,
      );
  await eventually(isReported, TIMEOUT);
  const [network] = NETWORKS;
  restrict(NETWORK, [{ from: [{ ipBlock: { cidr: `${network?.gateway ?? ""}/32` } }] }]);
  await expectReach(true, true);
});

test("a rule for labels lets another VM in, and the node not", async () => {
  addInterface(CLIENT, { name: CLIENT_NIC, network: NETWORK });
  try {
    await lease(CLIENT, CLIENT_NIC);
    restrict(NETWORK, []);
    await expectReach(false, true);
    await expectClient(false);
    restrict(NETWORK, [{ from: [{ podSelector: { matchLabels: { [NAME_LABEL]: CLIENT } } }] }]);
    await expectClient(true);
    await expectReach(false, true);
  } finally {
    removeInterface(CLIENT, CLIENT_NIC);
    await expectGone(CLIENT, CLIENT_NIC);
  }
});

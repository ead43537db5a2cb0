// SPDX-License-Identifier: Apache-2.0
import {
  MULTI_NETWORK_POLICIES,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Namespace, NetworkPolicy } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeCache } from "@patchbay/kube/testing";
import { applyManifests, parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { aVmi, eventually } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createNetworkPolicies, joinPolicies, POLICY_INDEXES, watchPolicies } from "./policies.ts";
import { createPolicyPass } from "./policy-pass.ts";

const LAN = "default/lan";
const SOON = { withinMs: 5000 };

function aVm(name: string, ip: string, labels: Readonly<Record<string, string>>) {
  const vmi = aVmi({
    status: {
      phase: "Running",
      nodeName: "node-1",
      activePods: { [`${name}-pod`]: "node-1" },
      attachments: [
        { name: "one", networkName: LAN, podInterfaceName: "p1", state: "Attached", ips: [ip] },
      ],
    },
  });
  return { ...vmi, metadata: { ...vmi.metadata, name, uid: `${name}-uid`, labels } };
}

function aPolicy(spec: NetworkPolicy["spec"], networks = "lan"): NetworkPolicy {
  const annotations = { [names.POLICY_FOR_ANNOTATION]: networks };
  return {
    apiVersion: "k8s.cni.cncf.io/v1beta1",
    kind: "MultiNetworkPolicy",
    metadata: { name: "p", namespace: "default", annotations },
    ...(spec && { spec }),
  };
}

function aDefinition(type: string): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "lan", namespace: "default" },
    spec: { config: JSON.stringify({ type }) },
  };
}

const DB = aVm("db", "10.1.0.1", { app: "db" });
const WEB = aVm("web", "10.1.0.2", { app: "web" });
const FROM_WEB = aPolicy({
  podSelector: { matchLabels: { app: "db" } },
  ingress: [{ from: [{ podSelector: { matchLabels: { app: "web" } } }] }],
});

function bench() {
  const policies = createFakeCache<NetworkPolicy>(POLICY_INDEXES);
  const vmis = createFakeCache<VirtualMachineInstance>();
  const namespaces = createFakeCache<Namespace>();
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  const made = createNetworkPolicies({ policies, vmis, namespaces, nads });
  let changes = 0;
  made.onChange(() => (changes += 1));
  const find = (vmi = DB) => made.find(vmi).policies;
  return { policies, vmis, nads, made, find, countChanges: () => changes };
}

test("follows changes of policies, VMs and definitions, and ignores all others", () => {
  const { policies, vmis, nads, find, countChanges } = bench();
  expect(find()).toEqual({});
  policies.put(FROM_WEB);
  vmis.put(DB);
  expect(find()).toEqual({ [LAN]: { ingress: [] } });
  vmis.put(WEB);
  expect(find()).toEqual({ [LAN]: { ingress: [{ peers: ["10.1.0.2"] }] } });
  const before = countChanges();
  vmis.put({ ...WEB, status: { ...WEB.status, guestOSInfo: { name: "Debian" } } });
  policies.put({ ...FROM_WEB, metadata: { ...FROM_WEB.metadata, resourceVersion: "9" } });
  nads.put(aDefinition("bridge"));
  expect(countChanges()).toBe(before);
  nads.put(aDefinition("ovn-k8s-cni-overlay"));
  expect(find()).toEqual({});
  nads.put(aDefinition("bridge"));
  policies.put(aPolicy(FROM_WEB.spec, "other"));
  expect(find()).toEqual({ "default/other": { ingress: [] } });
  policies.take({ namespace: "default", name: "p" });
  expect(find()).toEqual({});
});

test("a VMI that the cache of all nodes lacks is judged by its own fields, and not remembered", () => {
  const { policies, vmis, find } = bench();
  policies.put(FROM_WEB);
  expect(find()).toEqual({ [LAN]: { ingress: [] } });
  expect(find({ ...DB, metadata: { ...DB.metadata, labels: { app: "x" } } })).toEqual({});
  vmis.put({ ...DB, metadata: { ...DB.metadata, uid: "earlier" } });
  expect(find()).toEqual({ [LAN]: { ingress: [] } });
});

test("wakes VMIs whose policies changed, and reports rules without peers once", async () => {
  const { policies, vmis: all, made } = bench();
  const vmis = createFakeCache<VirtualMachineInstance>();
  for (const vmi of [DB, WEB]) {
    vmis.put(vmi);
    all.put(vmi);
  }
  const notes: string[] = [];
  const woken: string[] = [];
  const events = {
    record: (_object: unknown, { reason, message }: { reason: string; message: string }) => {
      notes.push(`${reason} ${message}`);
    },
    flush: () => Promise.resolve(),
  };
  const deps = { policies: joinPolicies({ networks: made }), vmis, events, nodeName: "node-1" };
  const pass = createPolicyPass(deps, (key) => woken.push(key));
  await pass();
  expect(woken).toEqual([]);
  policies.put(FROM_WEB);
  await pass();
  expect([woken, notes]).toEqual([["default/db"], []]);
  all.put({ ...WEB, metadata: { ...WEB.metadata, labels: {} } });
  await pass();
  policies.put(aPolicy({ ...FROM_WEB.spec, policyTypes: ["Ingress", "Egress"] }));
  await pass();
  expect(woken).toEqual(["default/db", "default/db", "default/db"]);
  expect(notes).toEqual([
    `NetworkPolicyWithoutPeers the selectors of a rule of MultiNetworkPolicy p on network ${LAN} match no VM that has an address there, so they allow nothing: other pods are no peers on this network, allow their addresses by ipBlock`,
  ]);
  policies.put(aPolicy({ podSelector: {}, ingress: Array.from({ length: 65 }, () => ({})) }));
  await pass();
  expect(notes.at(-1)).toBe(
    `NetworkPolicyTooLarge MultiNetworkPolicy p on network ${LAN} has too many rules, peers, blocks or ports, so it allows no traffic of this VM: split it into several policies`,
  );
});

describe("on an API server", () => {
  const account = `${names.SERVICE_ACCOUNT_PREFIX}virt-handler`;
  let server: TestServer;
  let admin: Store;
  let editor: Store;

  beforeAll(async () => {
    server = await startTestServer();
    admin = (await server.client("root", ["system:masters"])).store;
    const manifests = parseManifests(await readManifests(createFiles(), "multi-network-policies"));
    const rights = manifests.filter(({ metadata }) => metadata.name.includes("multi-network-"));
    const rbac = { apiVersion: "rbac.authorization.k8s.io/v1" };
    const edit = {
      ...rbac,
      kind: "RoleBinding",
      metadata: { namespace: "default", name: "editor" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "edit" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "editor" }],
    };
    await applyManifests(admin, [...rights, edit]);
    editor = (await server.client("editor")).store;
  });

  afterAll(() => server.close());

  test("virt-handler finds an editor's policy with its own rights", async () => {
    const controller = new AbortController();
    const { log } = server;
    const client = await server.client(account, ["system:serviceaccounts"]);
    const context = { client, log, signal: controller.signal };
    expect(await watchPolicies({}, context)).toBeUndefined();
    const policies = await watchPolicies({ multiNetworkPolicies: true }, context);
    for (const { apiVersion, kind, metadata, spec, status = {} } of [DB, WEB]) {
      const { name, labels } = metadata;
      const key = { namespace: "default", name };
      await admin.create(VIRTUAL_MACHINE_INSTANCES, {
        apiVersion,
        kind,
        metadata: { ...key, labels },
        spec,
      });
      const fields = { status: { attachments: status.attachments } };
      const patch = { type: "merge", fields } as const;
      await expect(
        editor.patch(VIRTUAL_MACHINE_INSTANCES, key, patch, { subresource: "status" }),
      ).rejects.toMatchObject({ code: "KUBE_FORBIDDEN" });
      await admin.patch(VIRTUAL_MACHINE_INSTANCES, key, patch, { subresource: "status" });
    }
    const ports = [{ port: 80 }, { port: "http", protocol: "UDP" }, { port: 90, endPort: 91 }];
    const [from] = FROM_WEB.spec?.ingress ?? [];
    const policy = aPolicy({ ...FROM_WEB.spec, ingress: [{ ...from, ports }] });
    await eventually(async () => {
      const created = await editor.create(MULTI_NETWORK_POLICIES, policy).catch(() => undefined);
      return created !== undefined;
    }, SOON);
    const db = await admin.find(VIRTUAL_MACHINE_INSTANCES, { namespace: "default", name: "db" });
    const pod = { uid: "p", namespace: "default", name: "p" };
    const want = [
      { protocol: "tcp", first: 80, last: 80 },
      { protocol: "tcp", first: 90, last: 91 },
    ];
    await eventually(
      () =>
        isEqual(policies?.find(db ?? DB, pod).networks?.policies, {
          [LAN]: { ingress: [{ peers: ["10.1.0.2"], ports: want }] },
        }),
      SOON,
    );
    controller.abort();
  });
});

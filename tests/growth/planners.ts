// SPDX-License-Identifier: Apache-2.0
// Planners of objects that tenants write.
import { networkConfigOf, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import type { Pod, Service } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { CLUSTER, SETTINGS } from "../../packages/control-plane/core/src/testing/launcher-facts.ts";
import { facts, owned } from "../../packages/control-plane/core/src/testing/attachment-facts.ts";
import {
  anIface,
  aDomain,
  live,
  WIRED,
} from "../../packages/control-plane/core/src/testing/node-scene.ts";
import {
  mergeNetworkStatus,
  planAttachmentActions,
} from "../../packages/control-plane/core/src/nics/attachments/attachment-actions.ts";
import {
  findAddressProblems,
  findPortProblems,
  findRequestedProblems,
} from "../../packages/control-plane/core/src/nics/attachments/node-addresses.ts";
import {
  DEFAULT_POLICY,
  findPolicyProblems,
} from "../../packages/control-plane/core/src/nics/attachments/tenant-policy.ts";
import { collectIfaceFacts } from "../../packages/control-plane/core/src/nics/phase.ts";
import {
  collectRetainedMacs,
  findMacChanges,
  findMacConflicts,
  findOwnMacConflicts,
  withMacs,
  withRecordedMacs,
} from "../../packages/control-plane/core/src/nics/mac.ts";
import { planVmiTopology } from "../../packages/control-plane/core/src/nics/pcie/topology.ts";
import { planNicsChange } from "../../packages/control-plane/core/src/nics/spec-plan.ts";
import {
  EMPTY_GUEST_VIEW,
  updateGuestView,
} from "../../packages/control-plane/core/src/guest/agent-view.ts";
import { planPodPolicy } from "../../packages/control-plane/core/src/policies/pod-policy.ts";
import { listBlockRanges } from "../../packages/control-plane/core/src/policies/ranges.ts";
import { planSlices } from "../../packages/control-plane/core/src/services/slices.ts";
import { buildLauncherPod } from "../../packages/control-plane/core/src/vm/pod/launcher-pod.ts";
import {
  applyJsonPatch,
  parseOperations,
} from "../../packages/standalone/apiserver/src/patch/json-patch.ts";
import { applyStrategicMerge } from "../../packages/standalone/apiserver/src/patch/strategic-merge.ts";
import { kindShape } from "../../packages/standalone/apiserver/src/shapes/shape.ts";
import {
  aContainer,
  aPod,
  IMAGE,
  NODE,
} from "../../packages/standalone/node-runtime/src/testing/pods.ts";
import { toContainerConfig } from "../../packages/standalone/node-runtime/src/translate/container.ts";
import {
  buildEnvironment,
  expandArguments,
  SizeBudget,
} from "../../packages/standalone/node-runtime/src/translate/environment.ts";
import {
  buildFiles,
  listConfigMapEntries,
} from "../../packages/standalone/node-runtime/src/volumes/content/volume-files.ts";
import {
  listTokenSources,
  listVolumeReferences,
} from "../../packages/standalone/node-runtime/src/volumes/content/references.ts";
import {
  dropDuplicates,
  listForwards,
} from "../../packages/standalone/service-net/src/forward/forwards.ts";
import {
  buildSlices,
  planEndpoints,
} from "../../packages/standalone/service-net/src/slices/plan.ts";
import { aService, RANGES } from "../../packages/standalone/service-net/src/testing/objects.ts";
import { aVm } from "./rules.ts";
import { times, type Subject } from "./subject.ts";

/** Maximum number of networks and interfaces of a VM. */
const ADDRESS_CONTEXT = {
  policy: { ranges: ["10.60.0.0/16"], clusterNetworks: ["10.244.0.0/16"] },
  subnets: [],
  foreignBridges: new Set<string>(),
};

const NICS_MAX = 64;
const CONFIG = networkConfigOf(undefined);

function nameOf(index: number): string {
  return `n${String(index)}`;
}

function aSpec(size: number, more: (index: number) => object = () => ({})): VmiSpec {
  const bare = aVmi().spec;
  return {
    ...bare,
    networks: times(size, (index) => ({
      name: nameOf(index),
      multus: { networkName: `net-${nameOf(index)}` },
    })),
    domain: {
      ...bare.domain,
      devices: {
        interfaces: times(size, (index) => ({
          name: nameOf(size - 1 - index),
          bridge: {},
          ...more(index),
        })),
      },
    },
  };
}

function aWideVmi(size: number, more?: (index: number) => object): VirtualMachineInstance {
  const vmi = aVmi();
  const attachments = times(size, (index) => ({
    name: nameOf(index),
    podInterfaceName: `pod${nameOf(index)}`,
    networkName: `default/net-${nameOf(index)}`,
    state: "Attached" as const,
    mac: "02:00:00:00:00:01",
  }));
  return { ...vmi, spec: aSpec(size, more), status: { ...vmi.status, attachments } };
}

const SAME_MAC = (): object => ({ macAddress: "02:00:00:00:00:01" });
const SOURCES = {
  namespace: "default",
  bindings: {},
  randomBytes: (size: number) => new Uint8Array(size),
};

const NICS: readonly Subject[] = [
  {
    name: "MACs for interfaces",
    limit: 512,
    prepare: (size) => {
      const spec = aSpec(size);
      const earlier = [aSpec(size, SAME_MAC)];
      return () => withMacs(spec, { ...SOURCES, earlier });
    },
  },
  {
    name: "conflicts of MACs",
    limit: 512,
    prepare: (size) => {
      const own = { namespace: "t1", name: "a", spec: aSpec(size, SAME_MAC) };
      const others = [{ ...own, name: "b" }];
      return () => [findMacConflicts(own, others), findOwnMacConflicts(own, () => "one")];
    },
  },
  {
    name: "recorded MACs",
    limit: 512,
    prepare: (size) => {
      const vm = { ...aVm(0, nameOf), spec: { template: { spec: aSpec(size) } } };
      const vmi = aWideVmi(size);
      return () => {
        const macAddresses = collectRetainedMacs(vm, vmi, {});
        return withRecordedMacs({ ...vm, status: { macAddresses } });
      };
    },
  },
  {
    name: "changes of MACs",
    limit: 512,
    prepare: (size) => {
      const vmi = aWideVmi(size);
      const attachments = (vmi.status?.attachments ?? []).map((each) => ({
        ...each,
        podInterfaceName: `new${each.podInterfaceName}`,
      }));
      const elements = attachments.map(({ podInterfaceName }) => ({
        name: "a",
        interface: podInterfaceName,
        mac: "02:00:00:00:00:02",
        "io.patchbay.kept-mac": true,
      }));
      return () => findMacChanges(vmi, attachments, elements);
    },
  },
  {
    name: "attachments of a pod, without names",
    limit: NICS_MAX,
    prepare: (size) => {
      const elements = times(size, (index) => ({ name: nameOf(index) }));
      const given = facts(elements, {
        foreign: times(size, (index) => ({
          network: "ns1/x",
          interfaceName: `net${String(index + 1)}`,
        })),
      });
      return () => planAttachmentActions(given);
    },
  },
  {
    name: "attachments of a pod, all replaced",
    limit: NICS_MAX,
    prepare: (size) => {
      const elements = times(size, (index) => ({
        name: nameOf(index),
        interface: `net${String(index)}`,
      }));
      const given = facts(elements, {
        owned: times(size, (index) => owned("ns1/old", `net${String(size - 1 - index)}`)),
      });
      return () => planAttachmentActions(given);
    },
  },
  {
    name: "merged network-status",
    limit: 512,
    prepare: (size) => {
      const current = times(size, (): NetworkStatus => ({ name: "a", interface: "net1" }));
      const entries = times(size, (index): NetworkStatus => ({
        name: "b",
        interface: nameOf(index),
      }));
      const attachment = { ...owned("ns1/a", "net1"), entries };
      return () => mergeNetworkStatus(current, [attachment]);
    },
  },
  {
    name: "policy for a network definition",
    limit: 2048,
    prepare: (size) => {
      const key = `${"k".repeat(size)}Dir`;
      const plugin = { type: "bridge", [key]: times(size, (index) => `/etc/${String(index)}`) };
      const config = { cniVersion: "1.0.0", name: "n", plugins: [plugin] };
      return () => findPolicyProblems({ namespace: "t1", config }, DEFAULT_POLICY, new Set());
    },
  },
  {
    name: "addresses that a network gives the node",
    limit: 256,
    prepare: (size) => {
      const ipam = { type: "host-local", ranges: times(size, () => [{ subnet: "10.1.0.0/24" }]) };
      const plugins = [{ type: "bridge", bridge: "b", isGateway: true, ipam }];
      const sources = { config: { cniVersion: "1.0.0", name: "n", plugins }, requestedIps: [] };
      return () => findAddressProblems("isGateway", sources, ADDRESS_CONTEXT);
    },
  },
  {
    name: "addresses that a pod requests from an administrator's network",
    limit: 512,
    prepare: (size) => {
      const config = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "bridge" }] };
      const requestedIps = times(size, () => "10.1.0.1/24");
      const request = { config, requestedIps, requestedArgs: { ips: requestedIps } };
      return () => findRequestedProblems("isGateway", request, ADDRESS_CONTEXT);
    },
  },
  {
    name: "ports of the node that a pod requests",
    limit: 512,
    prepare: (size) => {
      const mappings = times(size, (index) => ({ hostPort: index + 1, containerPort: 80 }));
      return () => findPortProblems(mappings, DEFAULT_POLICY, new Set([22]));
    },
  },
  {
    name: "facts about interfaces",
    limit: NICS_MAX,
    prepare: (size) => {
      const vmi = aWideVmi(size);
      const nothing = { links: [], nics: [], guest: EMPTY_GUEST_VIEW, bindings: {} };
      return () => collectIfaceFacts({ vmi, ...nothing });
    },
  },
  {
    name: "links that the guest agent reports",
    limit: 512,
    prepare: (size) => {
      const links = (prefix: string) =>
        times(size, (index) => ({ name: `${prefix}${String(index)}`, ipv4: [], ipv6: [] }));
      const context = { macs: times(size, (index) => `mac${String(index)}`), nowMs: 0 };
      const view = updateGuestView(EMPTY_GUEST_VIEW, links("a"), context);
      return () => updateGuestView(view, links("b"), context);
    },
  },
  {
    name: "PCIe layout",
    limit: NICS_MAX,
    prepare: (size) => {
      const vmi = aWideVmi(size);
      return () => planVmiTopology(vmi, CONFIG);
    },
  },
  {
    name: "plugged and unplugged NICs",
    limit: NICS_MAX,
    prepare: (size) => {
      const template = aSpec(size);
      const running = { ...aWideVmi(size), spec: aSpec(size / 2) };
      return () => planNicsChange(template, running, {});
    },
  },
  {
    name: "launcher pod",
    limit: NICS_MAX,
    prepare: (size) => {
      const vmi = aWideVmi(size);
      const request = {
        ...SETTINGS,
        ports: 8,
        claims: new Map(),
        definitions: new Map(),
        bindings: {},
        allowsHooks: false,
      };
      return () => buildLauncherPod(vmi, { ...CLUSTER, ...request });
    },
  },
  {
    name: "steps of a node for the NICs of a guest",
    limit: NICS_MAX,
    prepare: (size) => {
      const ifaces = times(size, (index) =>
        anIface({ name: nameOf(index), attachment: "Attached", links: WIRED }),
      );
      const domain = {
        running: true,
        isPaused: false,
        crashed: false,
        facts: aDomain(size),
      } as const;
      return () => live(ifaces, { domain });
    },
  },
];

const POLICY_PODS = 16;

const SERVICES: readonly Subject[] = [
  {
    name: "excepted blocks of a network policy",
    limit: 512,
    prepare: (size) => {
      const except = times(
        size,
        (index) => `10.${String(index >> 7)}.${String((index & 127) * 2)}.0/24`,
      );
      return () => listBlockRanges("10.0.0.0/8", except);
    },
  },
  {
    name: "named ports of a network policy",
    limit: 512,
    prepare: (size) => {
      const namedPorts = times(size, (index) => ({
        name: nameOf(index),
        protocol: "TCP",
        port: index + 1,
      }));
      const pod = {
        namespace: "t1",
        name: "a",
        uid: "1",
        labels: {},
        addresses: ["10.0.0.1"],
        namedPorts,
      };
      const ports = times(size - 8, (index) => ({ port: nameOf(index) }));
      const policy = {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "p", namespace: "t1" },
        spec: { podSelector: {}, ingress: [{ ports, from: [{ podSelector: {} }] }] },
      };
      const pods = times(POLICY_PODS, () => pod);
      return () =>
        planPodPolicy({ pod, policies: [policy], pods, findNamespaceLabels: () => ({}) });
    },
  },
  {
    name: "slices of a Service",
    limit: 2048,
    prepare: (size) => {
      const slice = (index: number, writer: string) => ({
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: nameOf(index),
          namespace: "t1",
          labels: { "endpointslice.kubernetes.io/managed-by": writer },
        },
        addressType: "IPv4" as const,
        endpoints: [],
      });
      const wanted = times(size, (index) => slice(index, "w"));
      const existing = times(size, (index) => slice(size - index, "w"));
      return () => planSlices(wanted, existing, "w");
    },
  },
  {
    name: "ports of a Service",
    limit: 256,
    prepare: (size) => {
      const ports = times(size, (index) => ({
        name: nameOf(index),
        port: index + 1,
        targetPort: nameOf(index),
      }));
      const service: Service = aService({ ports, type: "NodePort" });
      const containerPorts = times(size, (index) => ({
        name: nameOf(size - 1 - index),
        containerPort: index + 1,
      }));
      const pod: Pod = {
        ...aPod({ containers: [{ name: "a", image: "b", ports: containerPorts }] }),
        metadata: { name: "a", namespace: "blue", labels: { app: "web" } },
        status: {
          podIP: "10.88.0.5",
          phase: "Running",
          conditions: [{ type: "Ready", status: "True" }],
        },
      };
      return () => {
        const slices = buildSlices(service, [pod]);
        const forwards = dropDuplicates(listForwards(service, slices, RANGES));
        return [planEndpoints(service, slices, undefined), forwards];
      };
    },
  },
];

const OBJECTS: readonly Subject[] = [
  {
    name: "strategic merge patch",
    limit: 2048,
    prepare: (size) => {
      const containers = (prefix: string) =>
        times(size, (index) => ({ name: `${prefix}${String(index)}`, image: prefix }));
      const target = { spec: { containers: containers("a") } };
      const patch = { spec: { containers: [...containers("b"), ...containers("a").toReversed()] } };
      return () => applyStrategicMerge(target, patch, kindShape("v1", "Pod"));
    },
  },
  {
    name: "JSON patch",
    limit: 512,
    prepare: (size) => {
      const patch = times(size, (index) => ({
        op: "add",
        path: `/a/k${String(index)}`,
        value: "v",
      }));
      const text = JSON.stringify(patch);
      return () => applyJsonPatch({ a: {} }, parseOperations(patch, text));
    },
  },
  {
    name: "files of a ConfigMap",
    limit: 2048,
    prepare: (size) => {
      const data = Object.fromEntries(times(size, (index) => [nameOf(index), ""]));
      const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data };
      const contents = {
        pod: aPod(),
        node: NODE,
        findEntries: () => listConfigMapEntries(configMap),
        findToken: () => undefined,
      };
      return async () => (await buildFiles({ name: "v", configMap: { name: "c" } }, contents)).size;
    },
  },
  {
    name: "files in deep directories",
    limit: 2048,
    prepare: (size) => {
      const configMap = {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "c" },
        data: { k: "" },
      };
      const items = [{ key: "k", path: `${"d/".repeat(size - 1)}f` }];
      const contents = {
        pod: aPod(),
        node: NODE,
        findEntries: () => listConfigMapEntries(configMap),
        findToken: () => undefined,
      };
      return async () =>
        (await buildFiles({ name: "v", configMap: { name: "c", items } }, contents)).size;
    },
  },
  {
    name: "objects that volumes name",
    limit: 2048,
    prepare: (size) => {
      const sources = times(size, (index) => ({
        configMap: { name: nameOf(index), optional: true },
        serviceAccountToken: { path: nameOf(index) },
      }));
      const pod = aPod({ volumes: [{ name: "v", projected: { sources } }] });
      return () => [listVolumeReferences(pod), listTokenSources(pod)];
    },
  },
  {
    name: "mounts of a container",
    limit: 512,
    prepare: (size) => {
      const volumes = times(size, (index) => ({ name: nameOf(index), emptyDir: {} }));
      const volumeMounts = times(size, (index) => ({
        name: nameOf(size - 1 - index),
        mountPath: "/a",
      }));
      const options = {
        pod: aPod({ volumes }),
        node: NODE,
        podIps: [],
        sources: { configMaps: new Map(), secrets: new Map() },
        container: aContainer({ volumeMounts }),
        image: IMAGE,
        attempt: 0,
        volumes: new Map(volumes.map(({ name }) => [name, "/v"])),
        podDirectory: "/p",
      };
      return () => toContainerConfig(options);
    },
  },
  {
    name: "environment and arguments",
    limit: 2048,
    prepare: (size) => {
      const env = times(size, (index) => ({
        name: nameOf(index),
        value: `$(${nameOf(size - index)})`,
      }));
      const container = { name: "c", image: "i", env };
      const context = {
        pod: aPod(),
        node: NODE,
        podIps: [],
        sources: { configMaps: new Map(), secrets: new Map() },
      };
      return () => {
        const budget = new SizeBudget();
        const variables = buildEnvironment(container, context, budget);
        const texts = times(size, (index) => `$(${nameOf(index)})`);
        return expandArguments(container, texts, { variables, budget });
      };
    },
  },
];

export const PLANNERS: readonly Subject[] = [...NICS, ...SERVICES, ...OBJECTS].map((subject) => ({
  ...subject,
  name: `planner: ${subject.name}`,
}));

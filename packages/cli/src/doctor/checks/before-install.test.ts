// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { ApiService, KubeNode } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import type { ClusterDefinition, InstallFacts, PodOwner } from "../before-install.ts";
import type { Finding } from "../finding.ts";
import { judgeBeforeInstall } from "./before-install.ts";

const IMAGE = "registry.example/patchbay:1";
const OWN = { [names.PART_OF_LABEL]: names.PRODUCT };

interface OwnerFields {
  readonly namespace: string;
  readonly name: string;
  readonly image?: string;
  readonly args?: readonly string[];
  readonly hostPaths?: readonly string[];
  readonly scheduled?: number;
}

function daemonSet({
  namespace,
  name,
  image = "i",
  args = [],
  hostPaths = [],
  scheduled = 1,
}: OwnerFields): PodOwner {
  const volumes = hostPaths.map((path) => ({ name: path, hostPath: { path } }));
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { namespace, name },
    spec: { template: { spec: { containers: [{ name, image, args }], volumes } } },
    status: { desiredNumberScheduled: scheduled },
  };
}

function nodeOf(
  name: string,
  more: Partial<NonNullable<KubeNode["status"]>> = {},
  version = "v1.30.0",
): KubeNode {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      images: [{ names: [IMAGE] }],
      nodeInfo: {
        machineID: "",
        systemUUID: "",
        bootID: "",
        osImage: "Debian",
        kubeletVersion: version,
        kubeProxyVersion: "",
        operatingSystem: "linux",
        architecture: "amd64",
        kernelVersion: "6.1.0",
        containerRuntimeVersion: "containerd://1.6.20",
      },
      ...more,
    },
  };
}

function definitionOf(name: string, version = "v1"): ClusterDefinition {
  const [plural = "", ...group] = name.split(".");
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name },
    spec: {
      group: group.join("."),
      names: { plural },
      versions: [{ name: version, served: true }],
    },
  };
}

const AGENT = {
  ...daemonSet({
    namespace: names.SERVICES_NAMESPACE,
    name: "net-agent",
    image: IMAGE,
    args: ["--cni-bin-dir=/opt/cni/bin", "--cni-bin-dir=/usr/lib/cni"],
  }),
};
const KUBEVIRTS = definitionOf("kubevirts.kubevirt.io");
const PLAN = { value: { outcomes: [], refusals: [] } };

const READY: InstallFacts = {
  objects: [AGENT, KUBEVIRTS],
  settings: {},
  isPodAccount: false,
  serverVersion: { value: "v1.30.0" },
  groups: { value: ["apiregistration.k8s.io", "apps"] },
  frontProxy: {
    value: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "extension-apiserver-authentication" },
      data: { "requestheader-client-ca-file": "pem" },
    },
  },
  apiServices: { value: [] },
  definitions: { value: [] },
  webhooks: { value: [] },
  namesakes: { value: [] },
  blockingWebhooks: { value: [] },
  missingRights: { value: [] },
  namespace: { value: undefined },
  plan: PLAN,
  nodes: { value: [nodeOf("n1")] },
  daemonSets: { value: [] },
};

function print({ verdict, check, message }: Finding): string {
  return `${verdict} ${check}: ${message}`;
}

function notOk(facts: InstallFacts): readonly string[] {
  return judgeBeforeInstall(facts)
    .filter(({ verdict }) => verdict !== "ok")
    .map(print);
}

test("a suitable cluster passes all checks", () => {
  const findings = judgeBeforeInstall(READY);
  expect(notOk(READY)).toEqual([]);
  expect(findings.length).toBeGreaterThan(10);
});

const NAMESPACE = {
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name: names.SERVICES_NAMESPACE, labels: OWN },
};
const REFUSED = { name: "DaemonSet patchbay/net-agent", reason: 'violates PodSecurity "baseline"' };
const MULTUS = daemonSet({
  namespace: "kube-system",
  name: "kube-multus-ds",
  image: "m:snapshot-thick",
  hostPaths: ["/opt/cni/bin", "/etc/cni/net.d"],
});
const DYNAMIC = daemonSet({ namespace: "kube-system", name: "dynamic-networks-controller-ds" });
const K3S = nodeOf("n1", {}, "v1.31.0+k3s1");

function serviceOf(status: "True" | "False"): ApiService {
  return {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: "v1beta1.metrics.k8s.io" },
    spec: { group: "metrics.k8s.io", version: "v1beta1", service: { namespace: "a", name: "b" } },
    status: { conditions: [{ type: "Available", status }] },
  };
}

test.each<{ name: string; facts: Partial<InstallFacts>; want: readonly RegExp[] }>([
  {
    name: "an old server",
    facts: { serverVersion: { value: "v1.25.1" } },
    want: [/^wrong API server: Kubernetes v1\.25\.1 is older than 1\.26/],
  },
  {
    name: "no aggregation layer",
    facts: { groups: { value: ["apps"] } },
    want: [/^wrong aggregation layer: the API server does not serve APIServices/],
  },
  {
    name: "an aggregation layer without a CA",
    facts: { frontProxy: { value: undefined } },
    want: [/^wrong aggregation layer: the API server has no CA/],
  },
  {
    name: "an APIService of others without a server",
    facts: { apiServices: { value: [serviceOf("False")] } },
    want: [/^warning APIService v1beta1\.metrics\.k8s\.io: its server does not respond/],
  },
  {
    name: "an APIService of others",
    facts: { apiServices: { value: [serviceOf("True")] } },
    want: [],
  },
  {
    name: "missing rights",
    facts: { missingRights: { value: ["create namespaces", "create deployments.apps"] } },
    want: [/^wrong your rights: you may not create namespaces, create deployments\.apps/],
  },
  {
    name: "KubeVirt",
    facts: { definitions: { value: [KUBEVIRTS] } },
    want: [/^wrong CustomResourceDefinition kubevirts\.kubevirt\.io: is of another installation/],
  },
  {
    name: "KubeVirt, for net-agent alone",
    facts: { objects: [AGENT], definitions: { value: [KUBEVIRTS] } },
    want: [],
  },
  {
    name: "an object with a name of Patchbay",
    facts: { namesakes: { value: [NAMESPACE] } },
    want: [/^wrong Namespace patchbay: is of another installation/],
  },
  {
    name: "a kind of networks in another version",
    facts: {
      definitions: {
        value: [definitionOf("network-attachment-definitions.k8s.cni.cncf.io", "v2")],
      },
    },
    want: [/^wrong kind NetworkAttachmentDefinition: exists without the version v1/],
  },
  { name: "Multus", facts: { daemonSets: { value: [MULTUS] } }, want: [] },
  {
    name: "Multus and pod creation",
    facts: { settings: { podCreation: true }, daemonSets: { value: [MULTUS] } },
    want: [
      /^wrong Multus: DaemonSet kube-system\/kube-multus-ds \(thick plugin\) exists: with --pod-creation/,
    ],
  },
  {
    name: "Multus and mode alone",
    facts: { settings: { mode: "alone" }, daemonSets: { value: [MULTUS] } },
    want: [/^wrong Multus: .*: with --mode alone/],
  },
  {
    name: "a running dynamic networks controller",
    facts: { daemonSets: { value: [MULTUS, DYNAMIC] } },
    want: [/^wrong dynamic networks controller: .* runs: it and net-agent would both plug NICs/],
  },
  {
    name: "a stopped dynamic networks controller",
    facts: { daemonSets: { value: [{ ...DYNAMIC, status: { desiredNumberScheduled: 0 } }] } },
    want: [],
  },
  {
    name: "mode multus-dynamic without the controller",
    facts: { settings: { mode: "multus-dynamic" } },
    want: [/^warning dynamic networks controller: does not run/],
  },
  {
    name: "plugins elsewhere",
    facts: {
      daemonSets: {
        value: [daemonSet({ namespace: "a", name: "b", hostPaths: ["/data/cni/bin/"] })],
      },
    },
    want: [/^warning CNI directories: DaemonSet a\/b has its plugins in \/data\/cni\/bin,/],
  },
  {
    name: "k3s",
    facts: { nodes: { value: [K3S] } },
    want: [
      /^warning CNI directories: k3s on node n1 has its plugins in \/var\/lib\/rancher\/k3s\/data\/cni/,
    ],
  },
  {
    name: "k3s and pod creation",
    facts: { settings: { podCreation: true }, nodes: { value: [K3S] } },
    want: [
      /^warning CNI directories/,
      /^wrong CNI directories: .* which the runtime does not read/,
    ],
  },
  {
    name: "a namespace whose labels the installation sets",
    facts: { namespace: { value: NAMESPACE }, refusedPods: { value: [REFUSED] } },
    want: [],
  },
  {
    name: "a namespace of Helm without the labels",
    facts: {
      isPodAccount: true,
      namespace: { value: NAMESPACE },
      refusedPods: { value: [REFUSED] },
    },
    want: [
      /^wrong pods of DaemonSet patchbay\/net-agent: the API server refuses them: violates PodSecurity/,
    ],
  },
  {
    name: "a namespace of Helm with a level that refuses agents",
    facts: {
      isPodAccount: true,
      namespace: {
        value: {
          ...NAMESPACE,
          metadata: {
            ...NAMESPACE.metadata,
            labels: { "pod-security.kubernetes.io/enforce": "baseline" },
          },
        },
      },
      refusedPods: { failure: "forbidden" },
    },
    want: [/^wrong namespace patchbay: has the pod security level baseline/],
  },
  {
    name: "images, directories and constraints that a chart sets by its values",
    facts: {
      isPodAccount: true,
      objects: [daemonSet({ namespace: "patchbay", name: "net-agent", image: "localhost/p:1" })],
      settings: { podCreation: true },
      nodes: { value: [K3S] },
      groups: { value: ["apiregistration.k8s.io", "security.openshift.io"] },
    },
    want: [],
  },
  {
    name: "a policy that refuses agents",
    facts: {
      namespace: { value: NAMESPACE },
      refusedPods: {
        value: [{ ...REFUSED, reason: 'admission webhook "p" denied the request: no' }],
      },
    },
    want: [/^wrong pods of DaemonSet patchbay\/net-agent: .* denied the request: no/],
  },
  {
    name: "a namespace that is being deleted",
    facts: {
      namespace: { value: { ...NAMESPACE, status: { phase: "Terminating" } } },
      refusedPods: { value: [] },
    },
    want: [/^wrong namespace patchbay: is being deleted/],
  },
  {
    name: "OpenShift",
    facts: { groups: { value: ["apiregistration.k8s.io", "security.openshift.io"] } },
    want: [/^warning SecurityContextConstraints: .*oc adm policy/],
  },
  {
    name: "webhooks without a server, and without rights to see it",
    facts: {
      blockingWebhooks: {
        value: [
          { name: "a", service: "x/y", isReady: { value: false } },
          { name: "b", service: "x/y", isReady: { failure: "forbidden" } },
          { name: "c", service: "x/y", isReady: { value: true } },
          { name: "d", service: "x/y", isConditional: true, isReady: { value: false } },
        ],
      },
    },
    want: [
      /^wrong a: its Service x\/y has no ready endpoint/,
      /^unknown b: forbidden/,
      /^warning d: its Service x\/y has no ready endpoint, .*, unless its matchConditions exclude them/,
    ],
  },
  {
    name: "no nodes",
    facts: { nodes: { value: [] } },
    want: [/^warning nodes: there is none yet/],
  },
  {
    name: "a node with an old kernel, and one that is not ready",
    facts: {
      nodes: {
        value: [
          nodeOf("n1", { nodeInfo: { ...nodeInfo(), kernelVersion: "5.4.0" } }),
          nodeOf("n2", { conditions: [] }),
        ],
      },
    },
    want: [/^wrong node n1: has Linux 5\.4\.0/, /^warning node n2: is not ready/],
  },
  {
    name: "an image in a registry",
    facts: { nodes: { value: [nodeOf("n1", { images: [] })] } },
    want: [/^unknown image registry\.example\/patchbay:1: not yet on n1/],
  },
  {
    name: "a local image that one of two nodes has",
    facts: {
      objects: [daemonSet({ namespace: "patchbay", name: "net-agent", image: "localhost/p:1" })],
      nodes: { value: [nodeOf("n1", { images: [{ names: ["localhost/p:1"] }] }), nodeOf("n2")] },
    },
    want: [/^wrong image localhost\/p:1: is not on n2, and cannot be pulled/],
  },
  {
    name: "objects that the server refuses",
    facts: {
      plan: { value: { outcomes: [], refusals: [{ name: "DaemonSet a/b", reason: "quota" }] } },
    },
    want: [/^wrong DaemonSet a\/b: the API server refuses it: quota/],
  },
])("$name", ({ facts, want }) => {
  const lines = notOk({ ...READY, ...facts });
  expect(lines).toHaveLength(want.length);
  for (const [index, pattern] of want.entries()) expect(lines[index]).toMatch(pattern);
  const fixes = judgeBeforeInstall({ ...READY, ...facts })
    .filter(({ verdict }) => verdict === "wrong")
    .map(({ fix = "" }) => fix);
  expect(fixes).not.toContain("");
});

function nodeInfo(): NonNullable<NonNullable<KubeNode["status"]>["nodeInfo"]> {
  const info = nodeOf("n").status?.nodeInfo;
  if (info === undefined) throw new Error("the node has data");
  return info;
}

test("without any right, every check is unknown and none fails", () => {
  const failure = { failure: "forbidden" };
  const facts: InstallFacts = {
    objects: READY.objects,
    settings: {},
    isPodAccount: true,
    serverVersion: failure,
    groups: failure,
    frontProxy: failure,
    apiServices: failure,
    definitions: failure,
    webhooks: failure,
    namesakes: failure,
    blockingWebhooks: failure,
    missingRights: failure,
    namespace: failure,
    plan: failure,
    nodes: failure,
    daemonSets: failure,
  };
  const verdicts = judgeBeforeInstall(facts).map(({ verdict }) => verdict);
  expect(verdicts.length).toBeGreaterThan(9);
  expect(new Set(verdicts)).toEqual(new Set(["unknown"]));
});

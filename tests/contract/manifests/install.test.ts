// SPDX-License-Identifier: Apache-2.0
// What does an API server have after an installation, after another one, and after all was taken away?
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { executableOf } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { callPatchbay, type Called } from "../../../packages/cli/src/testing/run-patchbay.ts";
import { type Harness, QUIET, startHarness } from "../apiserver/harness.ts";

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";
const NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const KUBEVIRT_OBJECT = "/apis/kubevirt.io/v1/namespaces/patchbay/kubevirts/kubevirt";
const AGENT = "/apis/apps/v1/namespaces/patchbay/daemonsets/net-agent";
const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const MULTUS = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "network-attachment-definitions.k8s.cni.cncf.io" },
  spec: {
    group: "k8s.cni.cncf.io",
    scope: "Namespaced",
    names: {
      plural: "network-attachment-definitions",
      kind: "NetworkAttachmentDefinition",
    },
    versions: [
      { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
    ],
  },
};

/** What KubeVirt has in a cluster, in the places that Patchbay's own would have. */
const KUBEVIRT = [
  {
    what: "CustomResourceDefinition kubevirts.kubevirt.io",
    path: DEFINITIONS,
    object: {
      ...MULTUS,
      metadata: {
        name: "kubevirts.kubevirt.io",
        labels: { "app.kubernetes.io/managed-by": "virt-operator" },
      },
      spec: {
        ...MULTUS.spec,
        group: "kubevirt.io",
        names: { plural: "kubevirts", kind: "KubeVirt" },
      },
    },
  },
  {
    what: "APIService v1alpha3.subresources.kubevirt.io",
    path: API_SERVICES,
    object: {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1alpha3.subresources.kubevirt.io" },
      spec: {
        group: "subresources.kubevirt.io",
        version: "v1alpha3",
        groupPriorityMinimum: 1000,
        versionPriority: 15,
        service: { name: "virt-api", namespace: "kubevirt" },
      },
    },
  },
  {
    what: "MutatingWebhookConfiguration virt-api-mutator",
    path: WEBHOOKS,
    object: {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: "virt-api-mutator" },
      webhooks: [
        {
          name: "vms.kubevirt.io",
          clientConfig: { service: { name: "virt-api", namespace: "kubevirt" } },
          rules: [
            {
              apiGroups: ["kubevirt.io"],
              apiVersions: ["*"],
              operations: ["CREATE"],
              resources: ["virtualmachines"],
            },
          ],
          failurePolicy: "Ignore",
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
        },
      ],
    },
  },
];

let api: Harness;
let client: KubeClient;
let directory: string;

beforeEach(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "install-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  const config = await loadKubeConfig({ kubeconfig });
  client = createKubeClient(config, { logger: QUIET, clock: createClock() });
});

afterEach(async () => {
  await client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

interface Said {
  readonly exitCode: number;
  readonly lines: readonly string[];
  readonly stderr: string;
}

function wordsOf(args: readonly string[]): readonly string[] {
  return ["--kubeconfig", join(directory, "kubeconfig"), ...args];
}

function saidBy({ exitCode, stdout, stderr }: Called): Said {
  return { exitCode, lines: stdout.trim().split("\n"), stderr };
}

/** The command line as a person runs it: in a process. */
async function patchbayProcess(...args: readonly string[]): Promise<Said> {
  const argv = [executableOf("patchbay"), ...wordsOf(args)] as const;
  return saidBy(await createProcessRunner().run({ argv, timeoutMs: 60_000 }));
}

/** The same in this one. */
async function patchbay(...args: readonly string[]): Promise<Said> {
  return saidBy(await callPatchbay(wordsOf(args)));
}

function changesIn({ lines }: Said): ReadonlySet<string> {
  return new Set(lines.map((line) => line.slice(line.indexOf(": ") + 2)));
}

async function names(path: string): Promise<readonly string[]> {
  return (await api.get(path)).body.items.map(({ metadata }) => metadata.name);
}

async function kinds(): Promise<readonly string[]> {
  const all = await names(DEFINITIONS);
  return all.filter((name) => name.endsWith("kubevirt.io"));
}

const removed = (arg: string): string => `  - net-agent: ${arg}`;
const added = (arg: string): string => `  + net-agent: ${arg}`;

describe("install", () => {
  test("makes everything, in strict mode, and a second time changes nothing", async () => {
    const first = await patchbayProcess("install");
    // The embedded server has nobody for some of the kinds, and says so.
    const told = /handles a (\w+), it is only stored: /;
    const kinds = first.stderr
      .trim()
      .split("\n")
      .map((line) => told.exec(line)?.[1] ?? line);
    expect(new Set(kinds)).toEqual(new Set(["NetworkPolicy", "Deployment", "DaemonSet"]));
    expect(changesIn(first)).toEqual(new Set(["created"]));
    const base = parseManifests(await readManifests(createFiles(), "base"));
    expect(first.lines).toHaveLength(base.length + 1);
    // There from the start: each setting is a patch of it.
    expect(first.lines.at(-1)).toBe("KubeVirt patchbay/kubevirt: created");
    expect((await api.get(KUBEVIRT_OBJECT)).body.spec).toEqual({});
    expect(changesIn(await patchbay("install"))).toEqual(new Set(["unchanged"]));
  });

  test("changes what is to be another, and leaves what virt-api has written", async () => {
    await patchbay("install");
    const operations = [{ op: "add", path: "/webhooks/0/clientConfig/caBundle", value: "eA==" }];
    await api.patch(`${WEBHOOKS}/patchbay`, operations, "application/json-patch+json");
    const secret = "/api/v1/namespaces/patchbay/secrets/virt-api-certificates";
    await api.patch(secret, { data: { "tls.key": "eA==" } });
    const said = await patchbay("install", "--image", "registry.example/patchbay:1", "-o", "json");
    const { objects } = JSON.parse(said.lines.join("\n")) as {
      objects: { name: string; change: string }[];
    };
    expect(objects.filter(({ change }) => change !== "unchanged")).toEqual(
      ["Deployment patchbay/virt-api", "Deployment patchbay/virt-controller"]
        .concat(["DaemonSet patchbay/net-agent", "DaemonSet patchbay/virt-handler"])
        .map((name) => {
          const image = `${name.slice(name.indexOf("/") + 1)}: image:`;
          const differences = [
            `- ${image} localhost/patchbay/patchbay:dev`,
            `+ ${image} registry.example/patchbay:1`,
          ];
          return { name, change: "changed", differences, isChecked: true };
        }),
    );
    expect((await api.get(secret)).body.data).toEqual({ "tls.key": "eA==" });
    expect(JSON.stringify((await api.get(`${WEBHOOKS}/patchbay`)).body)).toContain(
      '"caBundle":"eA=="',
    );
  });

  test("keeps the settings that are not named again, and what people have set", async () => {
    const flags = ["--image", "r/p:1", "--launcher-image", "r/l:1", "--mode", "alone"];
    await patchbay("install", ...flags, "--pod-creation", "--kubelet-root-dir", "/data/kubelet");
    const configuration = { developerConfiguration: { useEmulation: true } };
    await api.patch(KUBEVIRT_OBJECT, { spec: { configuration } });
    expect(changesIn(await patchbay("install"))).toEqual(new Set(["unchanged"]));
    expect((await api.get(KUBEVIRT_OBJECT)).body.spec).toEqual({ configuration });
    const said = await patchbay("install", "--mode", "multus", "--no-pod-creation");
    const changed = said.lines.filter((line) => !line.endsWith(": unchanged"));
    expect(changed.map((line) => line.replace(/: \{.*/, ""))).toEqual([
      "DaemonSet patchbay/net-agent: changed",
      ...["--mode=alone", "--health-port=8481", "--metrics-port=8482"].map(removed),
      ...["--cni-socket=/run/net-agent/cni.sock", "--install-plugin=/host/opt/cni/bin"].map(
        removed,
      ),
      ...["--runtime-config-dir=/etc/cni/net.d", "--own-pod=patchbay/$(K8S_POD_NAME)"].map(removed),
      ...["env[K8S_POD_NAME]", "ports[health]", "ports[metrics]"].map(removed),
      ...["/run/net-agent", "/host/opt/cni/bin", "/etc/cni/net.d"].map((path) =>
        removed(`volumeMounts[${path}]`),
      ),
      ...["volumes[socket]", "volumes[plugins]", "volumes[network-configs]"].map(
        (volume) => `  - ${volume}`,
      ),
      "  - hostNetwork: true",
      "  - dnsPolicy: ClusterFirstWithHostNet",
      ...["--mode=multus", "--health-port=8081", "--metrics-port=8082"].map(added),
      ...["ports[health]", "ports[metrics]"].map(added),
      "  + dnsPolicy: ClusterFirst",
    ]);
    const agent = JSON.stringify((await api.get(AGENT)).body);
    expect(agent).not.toContain("--cni-socket");
    expect(agent).toContain('"--mode=multus"');
    expect(agent).toContain('"/data/kubelet/pod-resources"');
    expect(agent).toContain('"r/p:1"');
  });

  test("keeps what an operator changed in services, over defaults of the server", async () => {
    await patchbay("install");
    const container = {
      name: "net-agent",
      args: ["--mode=multus", "--health-port=8081", "--metrics-port=8082", "--tenant-bridges=br1"],
      env: [{ name: "HTTPS_PROXY", value: "http://proxy.example" }],
      resources: { limits: { memory: "2Gi" } },
    };
    const pod = { nodeSelector: { zone: "a" }, tolerations: [{ key: "gpu" }] };
    const patch = { spec: { template: { spec: { ...pod, containers: [container] } } } };
    const strategic = "application/strategic-merge-patch+json";
    await api.patch(AGENT, patch, strategic);
    const edited = (await api.get(AGENT)).body.spec;
    expect(JSON.stringify(edited)).toContain('"--tenant-bridges=br1"');
    expect(changesIn(await patchbay("install"))).toEqual(new Set(["unchanged"]));
    const said = await patchbay("install", "--image", "r/p:2");
    expect(said.lines).toContain("  + net-agent: image: r/p:2");
    const text = JSON.stringify(edited).replace('"localhost/patchbay/patchbay:dev"', '"r/p:2"');
    expect((await api.get(AGENT)).body.spec).toEqual(JSON.parse(text));
  });

  test("shows what it would do, and does nothing", async () => {
    const { lines, exitCode } = await patchbay("install", "--dry-run");
    expect(exitCode).toBe(0);
    expect(lines.filter((line) => !line.includes("would be created"))).toEqual([]);
    expect(lines).toContain(
      "Deployment patchbay/virt-api: would be created (not checked: its namespace does not exist yet)",
    );
    expect(await kinds()).toEqual([]);
    expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
  });

  test("leaves the networks of Multus alone, also at the end", async () => {
    await api.post(DEFINITIONS, MULTUS);
    expect([...changesIn(await patchbay("install"))].sort()).toEqual(["created", "left alone"]);
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toEqual([MULTUS.metadata.name]);
  });

  test.each([
    ...KUBEVIRT,
    {
      what: "Namespace patchbay",
      path: "/api/v1/namespaces",
      object: { apiVersion: "v1", kind: "Namespace", metadata: { name: "patchbay" } },
    },
  ])("refuses beside $what, names it and touches nothing", async ({ what, path, object }) => {
    await api.post(path, object);
    const definitions = await names(DEFINITIONS);
    const said = await patchbay("install");
    expect(said.exitCode).toBe(4);
    expect(said.stderr).toContain(
      `objects that Patchbay did not create; nothing was changed: ${what}\n`,
    );
    expect(await names(DEFINITIONS)).toEqual(definitions);
    expect(await names("/apis/scheduling.k8s.io/v1/priorityclasses")).not.toContain(
      "patchbay-critical",
    );
  });
});

describe("install --only net-agent, beside KubeVirt", () => {
  const vm = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "theirs" },
    spec: {},
  };

  beforeEach(async () => {
    for (const { path, object } of KUBEVIRT) await api.post(path, object);
    const metadata = { name: "virtualmachines.kubevirt.io" };
    const kind = { plural: "virtualmachines", kind: "VirtualMachine" };
    const spec = { ...MULTUS.spec, group: "kubevirt.io", names: kind };
    await api.post(DEFINITIONS, { ...MULTUS, metadata, spec });
    await api.post(VMS, vm);
  });

  /** Everything of KubeVirt's, as it is stored. */
  async function theirs(): Promise<readonly unknown[]> {
    const paths = KUBEVIRT.map(({ path, object }) => `${path}/${object.metadata.name}`);
    const answers = await Promise.all([...paths, `${VMS}/theirs`].map((path) => api.get(path)));
    return answers.map(({ body }) => body);
  }

  test("makes one DaemonSet, what it needs and the kind of networks; KubeVirt's stays as it was", async () => {
    const before = await theirs();
    const said = await patchbay("install", "--only", "net-agent", "--mode", "multus-dynamic");
    expect(said.exitCode).toBe(0);
    expect(said.lines).toEqual([
      "Namespace patchbay: created",
      "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io: created",
      "PriorityClass patchbay-critical: created",
      "ServiceAccount patchbay/net-agent: created",
      "ClusterRole patchbay:net-agent: created",
      "ClusterRole patchbay:metrics-server: created",
      "ClusterRole patchbay:metrics-reader: created",
      "ClusterRoleBinding patchbay:net-agent: created",
      "ClusterRoleBinding patchbay:net-agent-metrics: created",
      "NetworkPolicy patchbay/deny-ingress: created",
      "NetworkPolicy patchbay/metrics: created",
      "DaemonSet patchbay/net-agent: created",
    ]);
    expect(JSON.stringify((await api.get(AGENT)).body)).toContain('"--mode=multus-dynamic"');
    expect(await theirs()).toEqual(before);
  });

  test("goes again while there are VMs of KubeVirt, and leaves all of it", async () => {
    const before = await theirs();
    await patchbay("install", "--only", "net-agent");
    const said = await patchbay("uninstall");
    expect(said.exitCode).toBe(0);
    expect(changesIn(said)).toEqual(new Set(["deleted"]));
    expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
    expect(await theirs()).toEqual(before);
  });

  test("leaves the networks of Multus alone, with theirs", async () => {
    await api.post(DEFINITIONS, MULTUS);
    const said = await patchbay("install", "--only", "net-agent");
    expect(said.lines).toContain(
      "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io: left alone",
    );
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toContain(MULTUS.metadata.name);
  });

  test("is refused with what it has no use for", async () => {
    for (const flags of [
      ["--only", "virt-api"],
      ["--only", "net-agent", "--launcher-image", "r/l:1"],
      ["--mode", "solo"],
    ]) {
      const said = await patchbay("install", ...flags);
      expect(said.exitCode).toBe(2);
      expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
    }
  });
});

describe("uninstall", () => {
  async function ours(): Promise<readonly string[]> {
    const base = parseManifests(await readManifests(createFiles(), "base"));
    const left = await Promise.all(
      base.map(async ({ apiVersion, kind, metadata: { namespace, name } }) => {
        const group = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
        const where = namespace === undefined ? "" : `/namespaces/${namespace}`;
        const plural = kind.endsWith("y") ? `${kind.slice(0, -1)}ies` : `${kind}s`;
        const resource = plural.replace(/sss$/, "sses").toLowerCase();
        const { code } = await api.ask("GET", `${group}${where}/${resource}/${name}`);
        return code === 404 ? [] : [`${kind} ${name} ${String(code)}`];
      }),
    );
    return left.flat();
  }

  test("leaves nothing of an installation, and what was there stays", async () => {
    const before = await names("/apis/rbac.authorization.k8s.io/v1/clusterroles");
    await patchbay("install");
    expect(await ours()).not.toEqual([]);
    const said = await patchbayProcess("uninstall");
    expect(said.stderr).toBe("");
    expect(changesIn(said)).toEqual(new Set(["deleted"]));
    expect(await ours()).toEqual([]);
    expect(await names("/apis/rbac.authorization.k8s.io/v1/clusterroles")).toEqual(before);
    expect((await patchbay("uninstall")).exitCode).toBe(0);
  });

  test("refuses while there is a VM, names it and touches nothing", async () => {
    await patchbay("install");
    await api.delete(`${WEBHOOKS}/patchbay`); // nobody answers them here
    await api.delete(WEBHOOKS.replace("mutating", "validating") + "/patchbay");
    await api.post(VMS, {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "alpha" },
      spec: { running: false, template: { spec: { domain: { devices: {} } } } },
    });
    const said = await patchbay("uninstall");
    expect(said.exitCode).toBe(4);
    expect(said.stderr).toContain("nothing was changed: VirtualMachine default/alpha\n");
    expect(await kinds()).toHaveLength(12);
    await api.delete(`${VMS}/alpha`);
    expect((await patchbay("uninstall", "--with-objects")).exitCode).toBe(0);
    expect(await kinds()).toEqual([]);
  });

  test("keeps networks and their kind, with --with-objects, too", async () => {
    await patchbay("install");
    await api.post(NADS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "blue" },
      spec: { config: "{}" },
    });
    for (const flags of [[], ["--with-objects"]]) {
      const { lines } = await patchbay("uninstall", ...flags);
      expect(lines).toContain(
        `CustomResourceDefinition ${MULTUS.metadata.name}: kept, objects of it still exist: NetworkAttachmentDefinition default/blue`,
      );
      expect(await names(NADS)).toEqual(["blue"]);
    }
    await api.ask("DELETE", `${NADS}/blue`);
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toEqual([]);
  });

  test("keeps another kind with objects unless --with-objects is given", async () => {
    await patchbay("install");
    const policies = "/apis/migrations.kubevirt.io/v1alpha1/migrationpolicies";
    const policy = { apiVersion: "migrations.kubevirt.io/v1alpha1", kind: "MigrationPolicy" };
    await api.post(policies, { ...policy, metadata: { name: "slow" }, spec: { selectors: {} } });
    const kind = "CustomResourceDefinition migrationpolicies.migrations.kubevirt.io";
    expect((await patchbay("uninstall")).lines).toContain(
      `${kind}: kept, objects of it still exist: MigrationPolicy slow; --with-objects deletes them too`,
    );
    await patchbay("uninstall", "--with-objects");
    expect(await names(DEFINITIONS)).toEqual([]);
  });
});
